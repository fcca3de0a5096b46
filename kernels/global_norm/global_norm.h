// SPDX-License-Identifier: MIT
// global_norm: sum of x^2 over all elements of all tensors. The caller sums over ranks and takes the square root.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>
#include <vector>

#include "kernels/runtime/kernel_table.h"

namespace strata::kernels {

using at::Tensor;

// gradients: at least one tensor of any shape, all of one floating point dtype and device -> 0-dim fp32 (fp64 if the
// gradients are). Squares are accumulated in fp64, in the same order every time. Throws a ValueError if there is no
// gradient or dtypes or devices differ.
Tensor global_norm(const std::vector<Tensor>& gradients, Level level);

struct GlobalNormOp {
  static constexpr std::string_view kName = "global_norm";
  using Forward = Tensor(const std::vector<Tensor>& gradients);
  using Backward = NotDifferentiable;
  static const KernelTable<GlobalNormOp> kKernels;
};

GlobalNormOp::Forward global_norm_forward_cuda;
GlobalNormOp::Forward global_norm_forward_triton;

using GlobalNormOps = OpList<GlobalNormOp>;

}  // namespace strata::kernels
