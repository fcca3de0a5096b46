// SPDX-License-Identifier: MIT
// swiglu: y = silu(gate) * up with silu(x) = x / (1 + exp(-x)) (Shazeer 2020). The last dimension of gate_up holds gate
// and then up.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "kernels/runtime/kernel_table.h"

namespace strata::kernels {

using at::Tensor;

// gate_up [..., 2F], floating point -> y [..., F]. Saves gate_up for backward. Throws a ValueError if the last
// dimension is odd.
Tensor swiglu(const Tensor& gate_up, Level level);

struct SwigluOp {
  static constexpr std::string_view kName = "swiglu";
  using Forward = Tensor(const Tensor& gate_up);
  using Backward = Tensor(const Tensor& grad_y, const Tensor& gate_up);
  static const KernelTable<SwigluOp> kKernels;
};

SwigluOp::Forward swiglu_forward_triton;
SwigluOp::Backward swiglu_backward_triton;
SwigluOp::Forward swiglu_forward_cuda;
SwigluOp::Backward swiglu_backward_cuda;

using SwigluOps = OpList<SwigluOp>;

}  // namespace strata::kernels
