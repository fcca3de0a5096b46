// SPDX-License-Identifier: MIT
// Level triton of activation: calls the kernels of activation_triton.py with tensors.
#include <ATen/ops/empty.h>

#include "kernels/activation/activation.h"
#include "kernels/activation/activation_triton_kernels.h"

namespace strata::kernels {

Tensor activation_forward_triton(const Tensor& x, Activation kind) {
  const Tensor y = at::empty(x.sizes(), x.options());
  launch_activation_forward_triton(x.contiguous(), y, x.numel(), triton_number(kind));
  return y;
}

Tensor activation_backward_triton(const Tensor& grad_y, const Tensor& x, Activation kind) {
  const Tensor grad_x = at::empty(x.sizes(), x.options());
  launch_activation_backward_triton(grad_y.contiguous(), x.contiguous(), grad_x, x.numel(), triton_number(kind));
  return grad_x;
}

}  // namespace strata::kernels
