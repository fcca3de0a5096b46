// SPDX-License-Identifier: MIT
// Level triton of layer_norm, add_layer_norm and layer_norm_gelu_tanh: calls the kernels of layer_norm_triton.py with
// tensors.
#include <ATen/ops/empty.h>

#include "kernels/activation/activation_kind.h"
#include "kernels/cuda/partial_sums.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/layer_norm/layer_norm_triton_kernels.h"
#include "kernels/norms/norm_tensors.h"
#include "kernels/norms/norm_width.h"

namespace strata::kernels {
namespace {

LayerNormOp::Output forward(std::string_view op, const Tensor& x, const Tensor& branch, const Tensor& weight,
                            const Tensor& bias, double eps, Activation activation) {
  const int64_t width = x.size(-1), rows = x.numel() / width;
  require_triton_width(op, x);
  const Tensor y = at::empty(x.sizes(), x.options());
  const Tensor sum = branch.defined() ? at::empty(x.sizes(), x.options()) : Tensor();
  const Tensor mean = number_per_row(x), rstd = number_per_row(x);
  launch_layer_norm_forward_triton(x.contiguous(), contiguous_if_defined(branch), weight.contiguous(),
                                   contiguous_if_defined(bias), y, sum, mean, rstd, rows, width, eps, branch.defined(),
                                   bias.defined(), triton_number(activation));
  return {y, sum, mean, rstd};
}

LayerNormOp::Gradient backward(const Tensor& grad_y, const Tensor& grad_sum, const Tensor& x, const Tensor& weight,
                               const Tensor& bias, const Tensor& mean, const Tensor& rstd,
                               const LayerNormOp::GradientDestinations& targets, Activation activation) {
  const int64_t width = x.size(-1), rows = x.numel() / width;
  const Tensor grad_x = at::empty(x.sizes(), x.options());
  const Tensor weight_partials = at::empty({partial_sum_programs(rows, width), width}, rstd.options());
  const Tensor bias_partials = at::empty(weight_partials.sizes(), rstd.options());
  launch_layer_norm_backward_triton(grad_y.contiguous(), contiguous_if_defined(grad_sum), x.contiguous(),
                                    weight.contiguous(), contiguous_if_defined(bias), mean, rstd, grad_x,
                                    weight_partials, bias_partials, rows, width, grad_sum.defined(), bias.defined(),
                                    triton_number(activation), weight_partials.size(0));
  LayerNormOp::Gradient gradient{grad_x, sum_partials(weight_partials, weight, targets.weight), {}};
  if (bias.defined()) gradient.bias = sum_partials(bias_partials, bias, targets.bias);
  return gradient;
}

}  // namespace

LayerNormOp::Output layer_norm_forward_triton(const Tensor& x, const Tensor& branch, const Tensor& weight,
                                              const Tensor& bias, double eps) {
  const std::string_view op = branch.defined() ? AddLayerNormOp::kName : LayerNormOp::kName;
  return forward(op, x, branch, weight, bias, eps, Activation::none);
}

LayerNormOp::Gradient layer_norm_backward_triton(const Tensor& grad_y, const Tensor& grad_sum, const Tensor& x,
                                                 const Tensor& weight, const Tensor& bias, const Tensor& mean,
                                                 const Tensor& rstd, const LayerNormOp::GradientDestinations& targets) {
  return backward(grad_y, grad_sum, x, weight, bias, mean, rstd, targets, Activation::none);
}

LayerNormOp::Output layer_norm_gelu_tanh_forward_triton(const Tensor& x, const Tensor& branch, const Tensor& weight,
                                                        const Tensor& bias, double eps) {
  return forward(LayerNormGeluTanhOp::kName, x, branch, weight, bias, eps, Activation::gelu_tanh);
}

LayerNormOp::Gradient layer_norm_gelu_tanh_backward_triton(const Tensor& grad_y, const Tensor& grad_sum,
                                                           const Tensor& x, const Tensor& weight, const Tensor& bias,
                                                           const Tensor& mean, const Tensor& rstd,
                                                           const LayerNormOp::GradientDestinations& targets) {
  return backward(grad_y, grad_sum, x, weight, bias, mean, rstd, targets, Activation::gelu_tanh);
}

}  // namespace strata::kernels
