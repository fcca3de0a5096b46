// SPDX-License-Identifier: MIT
// sum_of_squares: sum of x^2 over all elements of all tensors. The caller sums over ranks and takes the square root.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>
#include <vector>

#include "kernels/runtime/kernel_table.h"

namespace strata::kernels {

using at::Tensor;

// sum_of_squares(gradients, level): sum of x^2 over all elements of all tensors
//
// gradients: at least one tensor of any shape, all of one floating point dtype and device -> 0-dim fp32 (fp64 if the
// gradients are). Squares are accumulated in fp64, in the same order every time. Throws a ValueError if there is no
// gradient or dtypes or devices differ.
Tensor sum_of_squares(const std::vector<Tensor>& gradients, Level level);

struct SumOfSquaresOp {
  static constexpr std::string_view kName = "sum_of_squares";
  using Forward = Tensor(const std::vector<Tensor>& gradients);
  using Backward = NotDifferentiable;
  static const KernelTable<SumOfSquaresOp> kKernels;
};

SumOfSquaresOp::Forward sum_of_squares_forward_cuda;
SumOfSquaresOp::Forward sum_of_squares_forward_triton;

using SumOfSquaresOps = OpList<SumOfSquaresOp>;

}  // namespace strata::kernels
