// SPDX-License-Identifier: MIT
// The modules that are timed as a whole: classes of modules/ with the sizes of shipped configurations, each beside the
// same module in plain PyTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/baselines/naive_modules.h"
#include "modules/scope.h"

namespace strata::tools {

using at::Tensor;
using kernels::baselines::Parameters;

struct ModuleCase {
  using Function = std::function<Tensor(const Tensor& x)>;

  std::string name = {};       // "attention"
  std::string config = {};     // the file with its sizes
  std::vector<int64_t> input;  // sizes of x
  std::function<Function(const modules::Scope&)> construct;
  std::function<Tensor(const Parameters&, const Tensor& x)> naive;
  int64_t heads = 1, key_value_heads = 1;  // heads of its attention, if it has one
};

// The names that module_case takes.
std::vector<std::string> module_names();

// Reads the sizes from a file of the folder `configs`: for CPUs from a quick start, and for GPUs from GPT-2, Llama 1B,
// ViT-B or a graph of the size of ogbn-arxiv. Throws an Error (configuration) with all names if there is
// no such module.
ModuleCase module_case(const std::string& name, const std::string& configs, at::Device device);

// Plain code has separate weights where modules pack several into one. Returns name and rows of each parameter of the
// baseline that together are the parameter `name` of the module, which has `rows` rows.
std::vector<std::pair<std::string, int64_t>> separate_parameters(const ModuleCase& module, const std::string& name,
                                                                 int64_t rows);

}  // namespace strata::tools
