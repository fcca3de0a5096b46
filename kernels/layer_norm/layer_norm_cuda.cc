// SPDX-License-Identifier: MIT
// Level cuda of layer_norm and add_layer_norm: tensors to the launchers of layer_norm.cu.
#include "kernels/layer_norm/layer_norm_cuda.h"

#include "kernels/layer_norm/layer_norm.h"
#include "kernels/norm_tensors.h"

namespace strata::kernels {

LayerNormOp::Output layer_norm_forward_cuda(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  const NormForwardCall call(LayerNormOp::kName, x, {}, weight, bias, eps, /*centered=*/true);
  call.launch(launch_layer_norm_forward, "layer_norm_forward_cuda");
  return {call.y, call.mean, call.rstd};
}

LayerNormOp::Gradient layer_norm_backward_cuda(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                                               const Tensor& bias, const Tensor& mean, const Tensor& rstd,
                                               const LayerNormOp::GradientTargets& targets) {
  const NormBackwardCall call(LayerNormOp::kName, grad_y, {}, x, weight, bias, mean, rstd, targets.weight,
                              targets.bias);
  call.launch(launch_layer_norm_backward, "layer_norm_backward_cuda");
  return {call.grad_x, call.deliver_weight(), call.deliver_bias()};
}

AddLayerNormOp::Output add_layer_norm_forward_cuda(const Tensor& residual, const Tensor& branch, const Tensor& weight,
                                                   const Tensor& bias, double eps) {
  const NormForwardCall call(AddLayerNormOp::kName, residual, branch, weight, bias, eps, /*centered=*/true);
  call.launch(launch_layer_norm_forward, "add_layer_norm_forward_cuda");
  return {call.y, call.sum, call.mean, call.rstd};
}

AddLayerNormOp::Gradient add_layer_norm_backward_cuda(const Tensor& grad_y, const Tensor& grad_sum, const Tensor& sum,
                                                      const Tensor& weight, const Tensor& bias, const Tensor& mean,
                                                      const Tensor& rstd, const LayerNormOp::GradientTargets& targets) {
  const NormBackwardCall call(AddLayerNormOp::kName, grad_y, grad_sum, sum, weight, bias, mean, rstd, targets.weight,
                              targets.bias);
  call.launch(launch_layer_norm_backward, "add_layer_norm_backward_cuda");
  return {call.grad_x, call.deliver_weight(), call.deliver_bias()};
}

LayerNormOp::Output layer_norm_gelu_tanh_forward_cuda(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                                      double eps) {
  const NormForwardCall call(LayerNormGeluTanhOp::kName, x, {}, weight, bias, eps, /*centered=*/true);
  call.launch(launch_layer_norm_gelu_tanh_forward, "layer_norm_gelu_tanh_forward_cuda");
  return {call.y, call.mean, call.rstd};
}

LayerNormOp::Gradient layer_norm_gelu_tanh_backward_cuda(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                                                         const Tensor& bias, const Tensor& mean, const Tensor& rstd,
                                                         const LayerNormOp::GradientTargets& targets) {
  const NormBackwardCall call(LayerNormGeluTanhOp::kName, grad_y, {}, x, weight, bias, mean, rstd, targets.weight,
                              targets.bias);
  call.launch(launch_layer_norm_gelu_tanh_backward, "layer_norm_gelu_tanh_backward_cuda");
  return {call.grad_x, call.deliver_weight(), call.deliver_bias()};
}

}  // namespace strata::kernels
