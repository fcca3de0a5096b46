// SPDX-License-Identifier: MIT
// A hook that is placed in the forward and runs when the backward reaches that place.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace strata::sharding {

using at::Tensor;

// Returns `tensors` with the hook attached: `action` runs after the gradients of all of them have arrived. Undefined
// tensors and those that require no gradient are returned unchanged. If all are, or gradients are disabled, `action`
// never runs.
std::vector<Tensor> run_in_backward(std::vector<Tensor> tensors, std::function<void()> action);

}  // namespace strata::sharding
