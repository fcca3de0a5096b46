// SPDX-License-Identifier: MIT
// Times a module forward and backward over rotating inputs and parameters, and counts what a forward and a backward
// take.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "tools/bench/modules/module_cases.h"

namespace strata::tools {

// Makes the function of a module that has these parameters. The function keeps them.
using BuildModule = std::function<ModuleCase::Function(const Parameters& parameters)>;

// What a call reads: leaves that require gradients, and the gradient of the output.
struct ModuleInputs {
  Parameters parameters;
  Tensor x, grad_y;
};

struct ModuleTimes {
  std::vector<double> forward, backward;  // seconds of each sample
  int64_t peak_bytes = 0;                 // the most that tensors of a forward and backward take beside ModuleInputs
  int64_t sets = 0;                       // sets of inputs, which the calls took in turn
  // As StepTimes::launches counts them: kernels, copies and fills of a GPU; on CPUs, calls of LibTorch's operators.
  // Absent if the driver does not report the work of the GPU.
  std::optional<int64_t> forward_launches = {}, backward_launches = {};
  std::optional<double> joules = {};  // energy of a forward and its backward, as joules_per_call has it
};

// Returns the output, and the gradients of x and of the parameters.
std::vector<Tensor> evaluate(const ModuleCase::Function& run, const ModuleInputs& inputs);

// Calls take copies of the inputs in turn, each with a module of its own. There are as many as rotating_sets says for
// the data of a forward and backward.
ModuleTimes time_module(const BuildModule& build, const ModuleInputs& inputs);

}  // namespace strata::tools
