// SPDX-License-Identifier: MIT
// Level cuda of swiglu: calls the launchers of swiglu.cu with tensors.
#include "kernels/swiglu/swiglu_cuda.h"

#include <ATen/ops/empty.h>

#include "kernels/cuda/launch.h"
#include "kernels/swiglu/swiglu.h"

namespace strata::kernels {
namespace {

int64_t rows_of(const Tensor& gate_up) { return gate_up.numel() / std::max<int64_t>(gate_up.size(-1), 1); }

}  // namespace

Tensor swiglu_forward_cuda(const Tensor& gate_up, Activation kind) {
  const int64_t width = gate_up.size(-1) / 2, rows = rows_of(gate_up);
  std::vector<int64_t> shape = gate_up.sizes().vec();
  shape.back() = width;
  const Tensor input = gate_up.contiguous(), y = at::empty(shape, gate_up.options());
  const CudaType type = cuda_type(SwigluOp::kName, "gate_up", gate_up);
  launch("swiglu_forward_cuda", gate_up, rows, width, [&](cudaStream_t stream) {
    return launch_swiglu_forward(type, kind, y.data_ptr(), input.data_ptr(), rows, width, stream);
  });
  return y;
}

Tensor swiglu_backward_cuda(const Tensor& grad_y, const Tensor& gate_up, Activation kind) {
  const int64_t width = gate_up.size(-1) / 2, rows = rows_of(gate_up);
  const Tensor gradient = grad_y.contiguous(), input = gate_up.contiguous();
  const Tensor grad_gate_up = at::empty(gate_up.sizes(), gate_up.options());
  const CudaType type = cuda_type(SwigluOp::kName, "gate_up", gate_up);
  launch("swiglu_backward_cuda", gate_up, rows, width, [&](cudaStream_t stream) {
    return launch_swiglu_backward(type, kind, grad_gate_up.data_ptr(), gradient.data_ptr(), input.data_ptr(), rows,
                                  width, stream);
  });
  return grad_gate_up;
}

}  // namespace strata::kernels
