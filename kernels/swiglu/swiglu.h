// SPDX-License-Identifier: MIT
// swiglu: y = silu(gate) * up with silu(x) = x / (1 + exp(-x)), or gelu_tanh(gate) * up, which is also called GeGLU
// (Shazeer 2020). The last dimension of gate_up holds gate and then up.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "kernels/activation/activation_kind.h"
#include "kernels/runtime/kernel_table.h"

namespace strata::kernels {

using at::Tensor;

// swiglu(gate_up, kind, level): y = silu(gate) * up or gelu_tanh(gate) * up, where gate_up = [gate, up]
//
// gate_up [..., 2F], floating point -> y [..., F]. Saves gate_up for backward. Throws a ValueError if the last
// dimension is odd, or if kind is not silu or gelu_tanh.
Tensor swiglu(const Tensor& gate_up, Activation kind, Level level);

// A tensor with its largest magnitude, which the kernel that wrote the tensor found (kernels/cuda/amax.h).
struct WithAmax {
  Tensor tensor, amax;
};

// The forward of swiglu() at level cuda, and its gradient of gate_up, for fp8_operand(). Nothing is recorded for
// autograd. amax has no values if the tensor has no elements. grad_y is [..., F] in the dtype of gate_up. With in_place
// the gradient is written into the memory of gate_up if that is contiguous; nobody may read gate_up after that.
WithAmax swiglu_with_amax(const Tensor& gate_up, Activation kind);
WithAmax swiglu_gradient_with_amax(const Tensor& grad_y, const Tensor& gate_up, Activation kind, bool in_place);

struct SwigluOp {
  static constexpr std::string_view kName = "swiglu";
  using Forward = Tensor(const Tensor& gate_up, Activation kind);
  using Backward = Tensor(const Tensor& grad_y, const Tensor& gate_up, Activation kind);
  static const KernelTable<SwigluOp> kKernels;
};

SwigluOp::Forward swiglu_forward_triton;
SwigluOp::Backward swiglu_backward_triton;
SwigluOp::Forward swiglu_forward_cuda;
SwigluOp::Backward swiglu_backward_cuda;
decltype(swiglu_with_amax) swiglu_forward_cuda_with_amax;
decltype(swiglu_gradient_with_amax) swiglu_backward_cuda_with_amax;

using SwigluOps = OpList<SwigluOp>;

}  // namespace strata::kernels
