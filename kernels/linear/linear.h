// SPDX-License-Identifier: MIT
// linear: y = activation(x weight^T + bias), over the last dimension.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "kernels/activation/activation_kind.h"
#include "kernels/runtime/kernel_table.h"
#include "kernels/runtime/weight_gradient.h"

namespace strata::kernels {

// x [..., in], weight [out, in], bias [out] or undefined -> [..., out]. The activation is none, gelu, gelu_tanh or
// relu.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation, Level level);

// The same, and what the activation (gelu or gelu_tanh) was applied to: for a caller who makes y again instead of
// keeping it. No gradient goes through pre_activation, which the backward keeps in any case.
struct ActivatedProduct {
  Tensor y, pre_activation;
};
ActivatedProduct linear_and_pre_activation(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation kind,
                                           Level level);

struct LinearOp {
  static constexpr std::string_view kName = "linear";
  // pre_activation is what the activation's backward needs (of relu, y itself); undefined without an activation.
  struct Output {
    Tensor y, pre_activation;
  };
  struct Gradient {
    Tensor x, weight,
        bias;  // x undefined when it was not asked for; weight and bias when they were written into a buffer
  };
  struct GradientTargets {
    bool x;  // whether anybody needs the gradient of x
    WeightGradient weight, bias;
  };
  using Forward = Output(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation);
  using Backward = Gradient(const Tensor& grad_y, const Tensor& x, const Tensor& weight, bool has_bias,
                            const Tensor& pre_activation, Activation activation, const GradientTargets& targets);
  static const KernelTable<LinearOp> kKernels;
};

LinearOp::Forward linear_forward_triton;
LinearOp::Backward linear_backward_triton;
LinearOp::Forward linear_forward_cuda;
LinearOp::Backward linear_backward_cuda;

}  // namespace strata::kernels
