// SPDX-License-Identifier: MIT
// Tensors for tests of linear layers whose products are others than those of op linear.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/randn.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/runtime/gradient_destination.h"

namespace strata::modules {

using at::Tensor;

// x [..., inputs], weight [outputs, inputs], bias [outputs] and grad_y [..., outputs]. `draw` makes all but the bias.
struct LinearCase {
  LinearCase(at::ScalarType type, std::vector<int64_t> shape, int64_t inputs, int64_t outputs,
             const std::function<Tensor(at::IntArrayRef)>& draw) {
    at::manual_seed(5);
    shape.push_back(inputs);
    x = draw(shape).to(type).requires_grad_();
    weight = draw({outputs, inputs}).to(type).requires_grad_();
    bias = at::randn({outputs}).to(type).requires_grad_();
    shape.back() = outputs;
    grad_y = draw(shape).to(type);
  }
  Tensor x, weight, bias, grad_y;
};

// From now on the gradients of weight and bias are added to these tensors.
inline void add_gradients_to(const LinearCase& given, const Tensor& weight, const Tensor& bias) {
  const auto adds = [](const Tensor& buffer) {
    return [buffer] { return kernels::GradientDestination{buffer, true}; };
  };
  kernels::set_gradient_destination(given.weight, adds(weight));
  kernels::set_gradient_destination(given.bias, adds(bias));
}

// The largest difference, divided by the largest expected magnitude.
inline double relative_difference(const Tensor& actual, const Tensor& expected) {
  const Tensor difference = (actual.to(at::kDouble) - expected.to(at::kDouble)).abs().max();
  return (difference / expected.to(at::kDouble).abs().max()).item<double>();
}

}  // namespace strata::modules
