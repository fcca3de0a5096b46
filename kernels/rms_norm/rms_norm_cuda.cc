// SPDX-License-Identifier: MIT
// Level cuda of rms_norm and add_rms_norm: calls the launchers of rms_norm.cu with tensors.
#include "kernels/rms_norm/rms_norm_cuda.h"

#include "kernels/norms/norm_tensors.h"
#include "kernels/rms_norm/rms_norm.h"

namespace strata::kernels {
namespace {

constexpr NormLaunchers<NormForward> kForwardLaunchers = {hopper::launch_rms_norm_forward,
                                                          portable::launch_rms_norm_forward};
constexpr NormLaunchers<NormBackward> kBackwardLaunchers = {hopper::launch_rms_norm_backward,
                                                            portable::launch_rms_norm_backward};

}  // namespace

RmsNormOp::Output rms_norm_forward_cuda(const Tensor& x, const Tensor& branch, const Tensor& weight, double eps) {
  const bool adds = branch.defined();
  const NormForwardCall call(adds ? AddRmsNormOp::kName : RmsNormOp::kName, x, branch, weight, {}, eps,
                             /*centered=*/false);
  call.launch(kForwardLaunchers, adds ? "add_rms_norm_forward_cuda" : "rms_norm_forward_cuda");
  return {call.y, call.sum, call.rstd};
}

RmsNormOp::Gradient rms_norm_backward_cuda(const Tensor& grad_y, const Tensor& grad_sum, const Tensor& x,
                                           const Tensor& weight, const Tensor& rstd, const GradientDestination& into) {
  const bool adds = grad_sum.defined();
  const NormBackwardCall call(adds ? AddRmsNormOp::kName : RmsNormOp::kName, grad_y, grad_sum, x, weight, {}, {}, rstd,
                              into, {});
  call.launch(kBackwardLaunchers, adds ? "add_rms_norm_backward_cuda" : "rms_norm_backward_cuda");
  return {call.grad_x, call.accumulate_weight()};
}

}  // namespace strata::kernels
