// SPDX-License-Identifier: MIT
// Level cuda of activation: calls the launchers of activation.cu with tensors.
#include "kernels/activation/activation_cuda.h"

#include <ATen/ops/empty.h>

#include "kernels/activation/activation.h"
#include "kernels/cuda/launch.h"

namespace strata::kernels {

Tensor activation_forward_cuda(const Tensor& x, Activation kind) {
  const Tensor input = x.contiguous(), y = at::empty(x.sizes(), x.options());
  const CudaType type = cuda_type(ActivationOp::kName, "x", x);
  launch("activation_forward_cuda", x, 1, x.numel(), [&](cudaStream_t stream) {
    return launch_activation_forward(type, kind, y.data_ptr(), input.data_ptr(), x.numel(), stream);
  });
  return y;
}

Tensor activation_backward_cuda(const Tensor& grad_y, const Tensor& x, Activation kind) {
  const Tensor gradient = grad_y.contiguous(), input = x.contiguous(), grad_x = at::empty(x.sizes(), x.options());
  const CudaType type = cuda_type(ActivationOp::kName, "x", x);
  launch("activation_backward_cuda", x, 1, x.numel(), [&](cudaStream_t stream) {
    return launch_activation_backward(type, kind, grad_x.data_ptr(), gradient.data_ptr(), input.data_ptr(), x.numel(),
                                      stream);
  });
  return grad_x;
}

}  // namespace strata::kernels
