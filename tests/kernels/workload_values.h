// SPDX-License-Identifier: MIT
// workload_values: what a level computes for a workload.
#pragma once

#include <torch/csrc/autograd/autograd.h>

#include <vector>

#include "kernels/proof/workload.h"

namespace strata::kernels {

// Returns the results, and the gradients of all leaves if the op has them.
inline std::vector<Tensor> workload_values(const Workload& workload, Level level) {
  const Inputs inputs = fresh_inputs(workload);
  std::vector<Tensor> values = workload.run(inputs, level);
  if (!workload.differentiable) return values;
  const auto gradients = torch::autograd::grad(values, inputs.leaves, random_gradients(values));
  values.insert(values.end(), gradients.begin(), gradients.end());
  return values;
}

}  // namespace strata::kernels
