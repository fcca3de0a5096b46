// SPDX-License-Identifier: MIT
// Level cuda of rms_norm: tensors to the pointers of rms_norm.cu.
#include "kernels/rms_norm/rms_norm_cuda.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "kernels/launch_check.h"
#include "kernels/rms_norm/rms_norm.h"

namespace strata::kernels {

RmsNormOp::Output rms_norm_forward_cuda(const Tensor& x, const Tensor& weight, double eps) {
  const c10::cuda::CUDAGuard device(x.device());
  const int64_t width = x.size(-1), rows = x.numel() / width;
  const Tensor rows_of_x = x.contiguous();
  const Tensor y = at::empty(x.sizes(), x.options());
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = 1;
  const Tensor rstd = at::empty(shape, x.options().dtype(at::kFloat));
  check_launch(launch_rms_norm_forward(cuda_type(RmsNormOp::kName, "x", x), y.data_ptr(), rstd.data_ptr<float>(),
                                       rows_of_x.data_ptr(), weight.contiguous().data_ptr(), rows, width,
                                       static_cast<float>(eps), c10::cuda::getCurrentCUDAStream()),
               "rms_norm_forward_cuda", rows, width);
  return {y, rstd};
}

RmsNormOp::Gradient rms_norm_backward_cuda(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                                           const Tensor& rstd, const WeightGradient& into) {
  const c10::cuda::CUDAGuard device(x.device());
  const int64_t width = x.size(-1), rows = x.numel() / width;
  require(width <= kRmsNormBackwardMaxWidth, RmsNormOp::kName, Level::cuda, "x is ", x.sizes(),
          ", expected a last dimension of at most ", kRmsNormBackwardMaxWidth);
  const Tensor rows_of_x = x.contiguous(), rows_of_grad = grad_y.contiguous();
  const Tensor grad_x = at::empty(x.sizes(), x.options());
  const Tensor partials = at::empty({rms_norm_backward_partials(rows), width}, x.options().dtype(at::kFloat));
  // The sums go straight into the buffer where the kernel knows its dtype.
  const bool direct = into.into.defined() && into.into.is_contiguous() && into.into.scalar_type() != at::kDouble;
  const Tensor grad_weight = direct ? into.into : at::empty(weight.sizes(), weight.options());
  check_launch(launch_rms_norm_backward(cuda_type(RmsNormOp::kName, "x", x), grad_x.data_ptr(),
                                        cuda_type(RmsNormOp::kName, "the weight's gradient", grad_weight),
                                        grad_weight.data_ptr(), direct && into.add, partials.data_ptr<float>(),
                                        rows_of_grad.data_ptr(), rows_of_x.data_ptr(), weight.contiguous().data_ptr(),
                                        rstd.data_ptr<float>(), rows, width, c10::cuda::getCurrentCUDAStream()),
               "rms_norm_backward_cuda", rows, width);
  return {grad_x, direct ? Tensor() : deliver(grad_weight, into)};
}

}  // namespace strata::kernels
