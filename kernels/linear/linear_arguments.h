// SPDX-License-Identifier: MIT
// The arguments of a linear layer, as op linear and its relatives in this folder check them, tell their shape to an
// observer, and make room for the result.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <cstdint>
#include <vector>

#include "kernels/linear/linear.h"
#include "kernels/linear/linear_shape.h"
#include "kernels/runtime/call.h"

namespace strata::kernels {

// Throws a ValueError if bias, which may be undefined, does not fit x [..., in] and weight [out, in].
inline void check_linear_bias(const Tensor& x, const Tensor& weight, const Tensor& bias, Level level) {
  constexpr auto op = LinearOp::kName;
  if (!bias.defined()) return;
  require(bias.dim() == 1 && bias.size(0) == weight.size(0), op, level, "bias is ", bias.sizes(), ", expected [",
          weight.size(0), "]");
  require_same_kind(op, level, "x", x, "bias", bias);
}

// The same for all three.
inline void check_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Level level) {
  constexpr auto op = LinearOp::kName;
  require(weight.dim() == 2 && x.dim() >= 1 && x.size(-1) == weight.size(1), op, level, "x is ", x.sizes(),
          " and weight is ", weight.sizes(), ", expected x [..., in] and weight [out, in]");
  require_same_kind(op, level, "x", x, "weight", weight);
  check_linear_bias(x, weight, bias, level);
}

// `rows` is x or the gradient of y.
inline LinearShape linear_shape_of(const Tensor& rows, const Tensor& weight, const Tensor& bias,
                                   Activation activation = Activation::none) {
  return {.rows = row_count(rows),
          .inputs = weight.size(1),
          .outputs = weight.size(0),
          .activation = activation,
          .bias = bias.defined()};
}

// Returns a tensor without values like x [..., in], but [..., width].
inline Tensor empty_of_width(const Tensor& x, int64_t width) {
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = width;
  return at::empty(shape, x.options());
}

}  // namespace strata::kernels
