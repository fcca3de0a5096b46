// SPDX-License-Identifier: MIT
// Level triton of rms_norm and add_rms_norm: calls the kernels of rms_norm_triton.py with tensors.
#include <ATen/ops/empty.h>

#include "kernels/cuda/partial_sums.h"
#include "kernels/norms/norm_tensors.h"
#include "kernels/norms/norm_width.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rms_norm/rms_norm_triton_kernels.h"

namespace strata::kernels {

RmsNormOp::Output rms_norm_forward_triton(const Tensor& x, const Tensor& branch, const Tensor& weight, double eps) {
  const int64_t width = x.size(-1), rows = x.numel() / width;
  require_triton_width(branch.defined() ? AddRmsNormOp::kName : RmsNormOp::kName, x);
  const Tensor y = at::empty(x.sizes(), x.options());
  const Tensor sum = branch.defined() ? at::empty(x.sizes(), x.options()) : Tensor();
  const Tensor rstd = number_per_row(x);
  launch_rms_norm_forward_triton(x.contiguous(), contiguous_if_defined(branch), weight.contiguous(), y, sum, rstd, rows,
                                 width, eps, branch.defined());
  return {y, sum, rstd};
}

RmsNormOp::Gradient rms_norm_backward_triton(const Tensor& grad_y, const Tensor& grad_sum, const Tensor& x,
                                             const Tensor& weight, const Tensor& rstd,
                                             const GradientDestination& into) {
  const int64_t width = x.size(-1), rows = x.numel() / width;
  const Tensor grad_x = at::empty(x.sizes(), x.options());
  const Tensor partials = at::empty({partial_sum_programs(rows, width), width}, rstd.options());
  launch_rms_norm_backward_triton(grad_y.contiguous(), contiguous_if_defined(grad_sum), x.contiguous(),
                                  weight.contiguous(), rstd, grad_x, partials, rows, width, grad_sum.defined(),
                                  partials.size(0));
  return {grad_x, sum_partials(partials, weight, into)};
}

}  // namespace strata::kernels
