// SPDX-License-Identifier: MIT
// Level cuda of swiglu: calls the launchers of swiglu.cu with tensors.
#include "kernels/swiglu/swiglu_cuda.h"

#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "kernels/cuda/launch_check.h"
#include "kernels/swiglu/swiglu.h"

namespace strata::kernels {
namespace {

int64_t rows_of(const Tensor& gate_up) { return gate_up.numel() / std::max<int64_t>(gate_up.size(-1), 1); }

}  // namespace

Tensor swiglu_forward_cuda(const Tensor& gate_up) {
  const c10::cuda::CUDAGuard device(gate_up.device());
  const int64_t width = gate_up.size(-1) / 2, rows = rows_of(gate_up);
  std::vector<int64_t> shape = gate_up.sizes().vec();
  shape.back() = width;
  const Tensor input = gate_up.contiguous(), y = at::empty(shape, gate_up.options());
  check_launch(launch_swiglu_forward(cuda_type(SwigluOp::kName, "gate_up", gate_up), y.data_ptr(), input.data_ptr(),
                                     rows, width, c10::cuda::getCurrentCUDAStream()),
               "swiglu_forward_cuda", rows, width);
  return y;
}

Tensor swiglu_backward_cuda(const Tensor& grad_y, const Tensor& gate_up) {
  const c10::cuda::CUDAGuard device(gate_up.device());
  const int64_t width = gate_up.size(-1) / 2, rows = rows_of(gate_up);
  const Tensor gradient = grad_y.contiguous(), input = gate_up.contiguous();
  const Tensor grad_gate_up = at::empty(gate_up.sizes(), gate_up.options());
  check_launch(
      launch_swiglu_backward(cuda_type(SwigluOp::kName, "gate_up", gate_up), grad_gate_up.data_ptr(),
                             gradient.data_ptr(), input.data_ptr(), rows, width, c10::cuda::getCurrentCUDAStream()),
      "swiglu_backward_cuda", rows, width);
  return grad_gate_up;
}

}  // namespace strata::kernels
