// SPDX-License-Identifier: MIT
// layer_norm: y = (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias over the last dimension (Ba, Kiros and Hinton
// 2016). The variance divides by D. The op exists alone, with the residual added first, or followed by gelu_tanh.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "kernels/norms/normed_sum.h"
#include "kernels/runtime/gradient_destination.h"
#include "kernels/runtime/kernel_table.h"

namespace strata::kernels {

// layer_norm(x, weight, bias, eps, level): y = (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias
//
// x [..., D], weight [D] and bias [D] (or undefined) of one floating point dtype -> y [..., D]. Saves x, weight, bias,
// mean and rstd for backward. Throws a ValueError if a shape, dtype or device does not match, or at level triton if D >
// 16384.
Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, Level level);

// add_layer_norm(residual, branch, weight, bias, eps, level): sum = residual + branch, y = layer_norm(sum)
//
// sum = residual + branch, y = layer_norm(sum); residual and branch are [..., D]. Saves sum in place of x.
NormedSum add_layer_norm(const Tensor& residual, const Tensor& branch, const Tensor& weight, const Tensor& bias,
                         double eps, Level level);

// layer_norm_gelu_tanh(x, weight, bias, eps, level): y = gelu_tanh(layer_norm(x))
//
// y = gelu_tanh(layer_norm(x)), with the tensors that layer_norm takes and saves.
Tensor layer_norm_gelu_tanh(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, Level level);

struct LayerNormOp {
  static constexpr std::string_view kName = "layer_norm";
  struct Output {
    Tensor y, sum, mean, rstd;  // mean and rstd = 1 / sqrt(variance + eps), one per row, saved for backward
  };
  struct Gradient {
    Tensor x, weight, bias;  // weight and bias are undefined if they were written into a buffer
  };
  struct GradientDestinations {
    GradientDestination weight, bias;
  };
  // Normalizes x, or sum = x + branch. If `branch` is undefined, so is the output `sum`. x, branch, y and sum are
  // [..., D], weight and bias are [D], and bias may be undefined.
  using Forward = Output(const Tensor& x, const Tensor& branch, const Tensor& weight, const Tensor& bias, double eps);
  // x is what was normalized: the sum if there was a branch. grad_sum is the gradient of the output `sum`, undefined if
  // there is none.
  using Backward = Gradient(const Tensor& grad_y, const Tensor& grad_sum, const Tensor& x, const Tensor& weight,
                            const Tensor& bias, const Tensor& mean, const Tensor& rstd,
                            const GradientDestinations& targets);
  static const KernelTable<LayerNormOp> kKernels;
};

// AddLayerNormOp has the kernels of LayerNormOp, called with a branch. The gradients of residual and of branch both
// equal the gradient of sum. Without grad_sum the backward of layer_norm runs, so errors of levels aot_inductor and
// cuda name layer_norm.
struct AddLayerNormOp {
  static constexpr std::string_view kName = "add_layer_norm";
  using Forward = LayerNormOp::Forward;
  using Backward = LayerNormOp::Backward;
  static const KernelTable<AddLayerNormOp> kKernels;
};

// `branch` and `grad_sum` are undefined. The backward recomputes layer_norm(x) from mean and rstd.
struct LayerNormGeluTanhOp {
  static constexpr std::string_view kName = "layer_norm_gelu_tanh";
  using Forward = LayerNormOp::Forward;
  using Backward = LayerNormOp::Backward;
  static const KernelTable<LayerNormGeluTanhOp> kKernels;
};

LayerNormOp::Forward layer_norm_forward_triton, layer_norm_gelu_tanh_forward_triton;
LayerNormOp::Backward layer_norm_backward_triton, layer_norm_gelu_tanh_backward_triton;
LayerNormOp::Forward layer_norm_forward_cuda, layer_norm_gelu_tanh_forward_cuda;
LayerNormOp::Backward layer_norm_backward_cuda, layer_norm_gelu_tanh_backward_cuda;

using LayerNormOps = OpList<LayerNormOp, AddLayerNormOp, LayerNormGeluTanhOp>;

}  // namespace strata::kernels
