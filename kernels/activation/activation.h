// SPDX-License-Identifier: MIT
// activation: applies gelu, gelu_tanh, relu or silu to each element of x.
//   gelu       x * (1 + erf(x / sqrt(2))) / 2                            (Hendrycks and Gimpel 2016)
//   gelu_tanh  x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2
//   relu       max(x, 0)
//   silu       x / (1 + exp(-x))
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "kernels/activation/activation_kind.h"
#include "kernels/runtime/kernel_table.h"

namespace strata::kernels {

using at::Tensor;

// activation(x, kind, level): y = gelu(x), gelu_tanh(x), relu(x) or silu(x)
//
// x [...], floating point -> y with the shape and dtype of x. Saves x for backward. Throws a ValueError if kind is
// none.
Tensor activation(const Tensor& x, Activation kind, Level level);

struct ActivationOp {
  static constexpr std::string_view kName = "activation";
  using Forward = Tensor(const Tensor& x, Activation kind);
  using Backward = Tensor(const Tensor& grad_y, const Tensor& x, Activation kind);
  static const KernelTable<ActivationOp> kKernels;
};

ActivationOp::Forward activation_forward_triton;
ActivationOp::Backward activation_backward_triton;
ActivationOp::Forward activation_forward_cuda;
ActivationOp::Backward activation_backward_cuda;

// Used by linear and swiglu too.
ActivationOp::Forward activation_forward_aten;
ActivationOp::Backward activation_backward_aten;

using ActivationOps = OpList<ActivationOp>;

}  // namespace strata::kernels
