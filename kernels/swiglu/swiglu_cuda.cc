// SPDX-License-Identifier: MIT
// Level cuda of swiglu: calls the launchers of swiglu.cu with tensors.
#include "kernels/swiglu/swiglu_cuda.h"

#include <ATen/ops/empty.h>

#include "kernels/cuda/amax.h"
#include "kernels/cuda/launch.h"
#include "kernels/swiglu/swiglu.h"

namespace strata::kernels {
namespace {

int64_t rows_of(const Tensor& gate_up) { return gate_up.numel() / std::max<int64_t>(gate_up.size(-1), 1); }

unsigned* partials_of(const Tensor& amax) {
  return amax.defined() ? static_cast<unsigned*>(amax.mutable_data_ptr()) : nullptr;
}

Tensor empty_amax(const Tensor& like) { return at::empty({kAmaxPartials}, like.options().dtype(at::kInt)); }

Tensor forward(const Tensor& gate_up, Activation kind, const Tensor& amax) {
  const int64_t width = gate_up.size(-1) / 2, rows = rows_of(gate_up);
  std::vector<int64_t> shape = gate_up.sizes().vec();
  shape.back() = width;
  const Tensor input = gate_up.contiguous(), y = at::empty(shape, gate_up.options());
  const CudaType type = cuda_type(SwigluOp::kName, "gate_up", gate_up);
  launch("swiglu_forward_cuda", gate_up, rows, width, [&](cudaStream_t stream) {
    return launch_swiglu_forward(type, kind, y.data_ptr(), input.data_ptr(), rows, width, partials_of(amax), stream);
  });
  return y;
}

// `grad_gate_up` is contiguous.
void backward(const Tensor& grad_gate_up, const Tensor& grad_y, const Tensor& gate_up, Activation kind,
              const Tensor& amax) {
  const int64_t width = gate_up.size(-1) / 2, rows = rows_of(gate_up);
  const Tensor gradient = grad_y.contiguous(), input = gate_up.contiguous();
  const CudaType type = cuda_type(SwigluOp::kName, "gate_up", gate_up);
  launch("swiglu_backward_cuda", gate_up, rows, width, [&](cudaStream_t stream) {
    return launch_swiglu_backward(type, kind, grad_gate_up.data_ptr(), gradient.data_ptr(), input.data_ptr(), rows,
                                  width, partials_of(amax), stream);
  });
}

}  // namespace

Tensor swiglu_forward_cuda(const Tensor& gate_up, Activation kind) { return forward(gate_up, kind, /*amax=*/{}); }

Tensor swiglu_backward_cuda(const Tensor& grad_y, const Tensor& gate_up, Activation kind) {
  const Tensor grad_gate_up = at::empty(gate_up.sizes(), gate_up.options());
  backward(grad_gate_up, grad_y, gate_up, kind, /*amax=*/{});
  return grad_gate_up;
}

WithAmax swiglu_forward_cuda_with_amax(const Tensor& gate_up, Activation kind) {
  const Tensor amax = empty_amax(gate_up);
  return {forward(gate_up, kind, amax), amax};
}

WithAmax swiglu_backward_cuda_with_amax(const Tensor& grad_y, const Tensor& gate_up, Activation kind, bool in_place) {
  const Tensor amax = empty_amax(gate_up);
  const Tensor into = in_place && gate_up.is_contiguous() ? gate_up : at::empty(gate_up.sizes(), gate_up.options());
  backward(into, grad_y, gate_up, kind, amax);
  return {into, amax};
}

}  // namespace strata::kernels
