// SPDX-License-Identifier: MIT
// Level cuda of activation: calls the launchers of activation.cu with tensors.
#include "kernels/activation/activation_cuda.h"

#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "kernels/activation/activation.h"
#include "kernels/cuda/launch_check.h"

namespace strata::kernels {

Tensor activation_forward_cuda(const Tensor& x, Activation kind) {
  const c10::cuda::CUDAGuard device(x.device());
  const Tensor input = x.contiguous(), y = at::empty(x.sizes(), x.options());
  check_launch(launch_activation_forward(cuda_type(ActivationOp::kName, "x", x), kind, y.data_ptr(), input.data_ptr(),
                                         x.numel(), c10::cuda::getCurrentCUDAStream()),
               "activation_forward_cuda", 1, x.numel());
  return y;
}

Tensor activation_backward_cuda(const Tensor& grad_y, const Tensor& x, Activation kind) {
  const c10::cuda::CUDAGuard device(x.device());
  const Tensor gradient = grad_y.contiguous(), input = x.contiguous(), grad_x = at::empty(x.sizes(), x.options());
  check_launch(
      launch_activation_backward(cuda_type(ActivationOp::kName, "x", x), kind, grad_x.data_ptr(), gradient.data_ptr(),
                                 input.data_ptr(), x.numel(), c10::cuda::getCurrentCUDAStream()),
      "activation_backward_cuda", 1, x.numel());
  return grad_x;
}

}  // namespace strata::kernels
