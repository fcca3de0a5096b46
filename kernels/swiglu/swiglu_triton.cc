// SPDX-License-Identifier: MIT
// Level triton of swiglu: calls the kernels of swiglu_triton.py with tensors.
#include <ATen/ops/empty.h>

#include "kernels/swiglu/swiglu.h"
#include "kernels/swiglu/swiglu_triton_kernels.h"

namespace strata::kernels {

Tensor swiglu_forward_triton(const Tensor& gate_up, Activation kind) {
  std::vector<int64_t> shape = gate_up.sizes().vec();
  shape.back() /= 2;
  const Tensor y = at::empty(shape, gate_up.options());
  if (y.numel() == 0) return y;
  launch_swiglu_forward_triton(gate_up.contiguous(), y, shape.back(), triton_number(kind), y.numel() / shape.back());
  return y;
}

Tensor swiglu_backward_triton(const Tensor& grad_y, const Tensor& gate_up, Activation kind) {
  const Tensor grad = at::empty(gate_up.sizes(), gate_up.options());
  if (grad.numel() == 0) return grad;
  const int64_t width = grad_y.size(-1);
  launch_swiglu_backward_triton(grad_y.contiguous(), gate_up.contiguous(), grad, width, triton_number(kind),
                                grad_y.numel() / width);
  return grad;
}

}  // namespace strata::kernels
