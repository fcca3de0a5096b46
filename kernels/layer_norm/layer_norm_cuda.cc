// SPDX-License-Identifier: MIT
// Level cuda of layer_norm, add_layer_norm and layer_norm_gelu_tanh: calls the launchers of layer_norm.cu with tensors.
#include "kernels/layer_norm/layer_norm_cuda.h"

#include "kernels/layer_norm/layer_norm.h"
#include "kernels/norms/norm_tensors.h"

namespace strata::kernels {
namespace {

// The op-specific launchers and names.
struct Launchers {
  std::string_view op;
  NormLaunchers<NormForward> forward;
  NormLaunchers<NormBackward> backward;
  std::string_view forward_name, backward_name;
};

constexpr NormLaunchers<NormForward> kForwardLaunchers = {hopper::launch_layer_norm_forward,
                                                          portable::launch_layer_norm_forward};
constexpr NormLaunchers<NormBackward> kBackwardLaunchers = {hopper::launch_layer_norm_backward,
                                                            portable::launch_layer_norm_backward};
constexpr Launchers kLayerNorm = {LayerNormOp::kName, kForwardLaunchers, kBackwardLaunchers, "layer_norm_forward_cuda",
                                  "layer_norm_backward_cuda"};
constexpr Launchers kAddLayerNorm = {AddLayerNormOp::kName, kForwardLaunchers, kBackwardLaunchers,
                                     "add_layer_norm_forward_cuda", "add_layer_norm_backward_cuda"};
constexpr Launchers kLayerNormGeluTanh = {
    LayerNormGeluTanhOp::kName,
    {hopper::launch_layer_norm_gelu_tanh_forward, portable::launch_layer_norm_gelu_tanh_forward},
    {hopper::launch_layer_norm_gelu_tanh_backward, portable::launch_layer_norm_gelu_tanh_backward},
    "layer_norm_gelu_tanh_forward_cuda",
    "layer_norm_gelu_tanh_backward_cuda"};

LayerNormOp::Output forward(const Launchers& launchers, const Tensor& x, const Tensor& branch, const Tensor& weight,
                            const Tensor& bias, double eps) {
  const NormForwardCall call(launchers.op, x, branch, weight, bias, eps, /*centered=*/true);
  call.launch(launchers.forward, launchers.forward_name);
  return {call.y, call.sum, call.mean, call.rstd};
}

LayerNormOp::Gradient backward(const Launchers& launchers, const Tensor& grad_y, const Tensor& grad_sum,
                               const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                               const Tensor& rstd, const LayerNormOp::GradientDestinations& targets) {
  const NormBackwardCall call(launchers.op, grad_y, grad_sum, x, weight, bias, mean, rstd, targets.weight,
                              targets.bias);
  call.launch(launchers.backward, launchers.backward_name);
  return {call.grad_x, call.accumulate_weight(), call.accumulate_bias()};
}

}  // namespace

LayerNormOp::Output layer_norm_forward_cuda(const Tensor& x, const Tensor& branch, const Tensor& weight,
                                            const Tensor& bias, double eps) {
  return forward(branch.defined() ? kAddLayerNorm : kLayerNorm, x, branch, weight, bias, eps);
}

LayerNormOp::Gradient layer_norm_backward_cuda(const Tensor& grad_y, const Tensor& grad_sum, const Tensor& x,
                                               const Tensor& weight, const Tensor& bias, const Tensor& mean,
                                               const Tensor& rstd, const LayerNormOp::GradientDestinations& targets) {
  return backward(grad_sum.defined() ? kAddLayerNorm : kLayerNorm, grad_y, grad_sum, x, weight, bias, mean, rstd,
                  targets);
}

LayerNormOp::Output layer_norm_gelu_tanh_forward_cuda(const Tensor& x, const Tensor& branch, const Tensor& weight,
                                                      const Tensor& bias, double eps) {
  return forward(kLayerNormGeluTanh, x, branch, weight, bias, eps);
}

LayerNormOp::Gradient layer_norm_gelu_tanh_backward_cuda(const Tensor& grad_y, const Tensor& grad_sum, const Tensor& x,
                                                         const Tensor& weight, const Tensor& bias, const Tensor& mean,
                                                         const Tensor& rstd,
                                                         const LayerNormOp::GradientDestinations& targets) {
  return backward(kLayerNormGeluTanh, grad_y, grad_sum, x, weight, bias, mean, rstd, targets);
}

}  // namespace strata::kernels
