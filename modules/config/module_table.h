// SPDX-License-Identifier: MIT
// The modules of a model: their names, the parameter groups that they are gathered with, and the ops that they compute.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "modules/config/model_config.h"

namespace strata::modules {

struct Module {
  std::string name;                        // blocks.3.attention.qkv
  std::string group;                       // its group in the parameter table: root, blocks.3, head
  std::vector<std::string_view> ops = {};  // keys of `kernels:`, without the ops of inner modules
};

// Choices of a run that move an op from one module to another.
struct ModuleUse {
  bool head_and_loss_are_one = false;       // kernels.linear_cross_entropy
  bool features_are_gathered_once = false;  // by the first convolution; its relu is then the epilogue of its product
};

// Modules are in the order of computation, and a module comes before its parts.
std::vector<Module> module_table(const ModelConfig& model, const ModuleUse& use);

// Returns an error message if `name` means no module of the model, with the nearest name that would. Returns an empty
// text if it means at least one.
std::string problem_of_module(const std::string& name, const std::vector<Module>& modules);

// The group of the head's weight.
std::string head_group(const TransformerConfig& model);

}  // namespace strata::modules
