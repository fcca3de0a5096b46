// SPDX-License-Identifier: MIT
// linear: y = activation(x weight^T + bias) over the last dimension.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "kernels/activation/activation_kind.h"
#include "kernels/runtime/gradient_destination.h"
#include "kernels/runtime/kernel_table.h"

namespace strata::kernels {

// linear(x, weight, bias, activation, level): y = activation(x weight^T + bias)
//
// x [..., in], weight [out, in], bias [out] or undefined, all of one floating point dtype -> y [..., out]. The
// activation is none, gelu, gelu_tanh or relu. Saves x, weight, bias and pre_activation for backward. Throws a
// ValueError if a shape, dtype or device does not match or the activation is silu.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation, Level level);

struct ActivatedProduct {
  Tensor y, pre_activation;
};

// linear_and_pre_activation(x, weight, bias, kind, level): y, and pre_activation = x weight^T + bias
//
// Returns y and also the input of the activation (gelu or gelu_tanh), for callers that recompute y instead of saving
// it. pre_activation gets no gradient; the backward saves it in any case.
ActivatedProduct linear_and_pre_activation(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation kind,
                                           Level level);

struct LinearOp {
  static constexpr std::string_view kName = "linear";
  // pre_activation is the tensor that the activation's backward needs: its input, or y for a kind
  // that saves_output. It is undefined if there is no activation.
  struct Output {
    Tensor y, pre_activation;
  };
  struct Gradient {
    Tensor x, weight, bias;  // undefined: x if not needed, weight and bias if written into a buffer
  };
  struct GradientDestinations {
    bool x;  // true if the gradient of x is needed
    GradientDestination weight, bias;
  };
  using Forward = Output(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation);
  using Backward = Gradient(const Tensor& grad_y, const Tensor& x, const Tensor& weight, bool has_bias,
                            const Tensor& pre_activation, Activation activation, const GradientDestinations& targets);
  static const KernelTable<LinearOp> kKernels;
};

LinearOp::Forward linear_forward_triton;
LinearOp::Backward linear_backward_triton;
LinearOp::Forward linear_forward_cuda;
LinearOp::Backward linear_backward_cuda;

using LinearOps = OpList<LinearOp>;

}  // namespace strata::kernels
