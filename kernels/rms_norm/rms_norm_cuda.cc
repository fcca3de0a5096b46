// SPDX-License-Identifier: MIT
// Level cuda of rms_norm and add_rms_norm: calls the launchers of rms_norm.cu with tensors.
#include "kernels/rms_norm/rms_norm_cuda.h"

#include "kernels/norms/norm_tensors.h"
#include "kernels/rms_norm/rms_norm.h"

namespace strata::kernels {

RmsNormOp::Output rms_norm_forward_cuda(const Tensor& x, const Tensor& weight, double eps) {
  const NormForwardCall call(RmsNormOp::kName, x, {}, weight, {}, eps, /*centered=*/false);
  call.launch(launch_rms_norm_forward, "rms_norm_forward_cuda");
  return {call.y, call.rstd};
}

RmsNormOp::Gradient rms_norm_backward_cuda(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                                           const Tensor& rstd, const WeightGradient& into) {
  const NormBackwardCall call(RmsNormOp::kName, grad_y, {}, x, weight, {}, {}, rstd, into, {});
  call.launch(launch_rms_norm_backward, "rms_norm_backward_cuda");
  return {call.grad_x, call.deliver_weight()};
}

AddRmsNormOp::Output add_rms_norm_forward_cuda(const Tensor& residual, const Tensor& branch, const Tensor& weight,
                                               double eps) {
  const NormForwardCall call(AddRmsNormOp::kName, residual, branch, weight, {}, eps, /*centered=*/false);
  call.launch(launch_rms_norm_forward, "add_rms_norm_forward_cuda");
  return {call.y, call.sum, call.rstd};
}

AddRmsNormOp::Gradient add_rms_norm_backward_cuda(const Tensor& grad_y, const Tensor& grad_sum, const Tensor& sum,
                                                  const Tensor& weight, const Tensor& rstd,
                                                  const WeightGradient& into) {
  const NormBackwardCall call(AddRmsNormOp::kName, grad_y, grad_sum, sum, weight, {}, {}, rstd, into, {});
  call.launch(launch_rms_norm_backward, "add_rms_norm_backward_cuda");
  return {call.grad_x, call.deliver_weight()};
}

}  // namespace strata::kernels
