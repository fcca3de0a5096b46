// SPDX-License-Identifier: MIT
// global_norm: the sum of squares of all elements of all tensors. The caller adds up ranks and takes the root.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>
#include <vector>

#include "kernels/runtime/kernel_table.h"

namespace strata::kernels {

using at::Tensor;

// 0-dim fp32 (fp64 when the gradients are); accumulated in fp64, in the same order every time. At least one tensor.
Tensor global_norm(const std::vector<Tensor>& gradients, Level level);

struct GlobalNormOp {
  static constexpr std::string_view kName = "global_norm";
  using Forward = Tensor(const std::vector<Tensor>& gradients);
  using Backward = NotDifferentiable;
  static const KernelTable<GlobalNormOp> kKernels;
};

GlobalNormOp::Forward global_norm_forward_cuda;
GlobalNormOp::Forward global_norm_forward_triton;

}  // namespace strata::kernels
