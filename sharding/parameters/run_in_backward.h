// SPDX-License-Identifier: MIT
// A hook at a place of the forward that runs when the backward comes by there.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace strata::sharding {

using at::Tensor;

// `tensors` with the action behind them: it runs when the gradients of all of them have arrived. Undefined ones and
// those without gradients stay as they are; where that is all of them, or no backward follows, it never runs.
std::vector<Tensor> run_in_backward(std::vector<Tensor> tensors, std::function<void()> action);

}  // namespace strata::sharding
