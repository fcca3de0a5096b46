// SPDX-License-Identifier: MIT
// The backward of linear_cross_entropy: multiplies a gradient that the forward computed by the gradient of the loss.
#include <algorithm>

#include "kernels/cuda/device_utils.cuh"
#include "kernels/linear_cross_entropy/linear_cross_entropy_cuda.h"

namespace strata::kernels {
namespace {

constexpr int kThreads = 256;

// Each thread handles 16 bytes of the gradient at a time (128256 x 4096 from fp32 to bf16: 4.15 TB/s, with 32 bytes
// 4.05). Elements after the last whole vector are handled one by one, and so are all elements if `vectors` is 0 because
// a pointer is not aligned.
template <class In, class Out>
__global__ void __launch_bounds__(kThreads) scaled_gradient_kernel(const ScaledGradient a, int64_t vectors) {
  constexpr int kWidth = kVectorWidth<In>;
  using InVector = Vector<In, kWidth>;
  using OutVector = Vector<Out, kWidth>;
  const In* const gradient = static_cast<const In*>(a.gradient);
  Out* const result = static_cast<Out*>(a.result);
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const float factor = *a.factor;
  const auto scaled = [&](In value, Out before) {
    const float product = to_float(value) * factor;
    return from_float<Out>(a.add ? to_float(before) + product : product);
  };
  for (int64_t i = first; i < vectors; i += step) {
    const InVector values = load_streaming(reinterpret_cast<const InVector*>(gradient) + i);
    OutVector* const place = reinterpret_cast<OutVector*>(result) + i;
    OutVector results = {};
    if (a.add) results = load_streaming(place);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) results.elements[k] = scaled(values.elements[k], results.elements[k]);
    store_streaming(place, results);
  }
  for (int64_t i = vectors * kWidth + first; i < a.count; i += step) result[i] = scaled(gradient[i], result[i]);
}

template <class In, class Out>
cudaError_t launch(const ScaledGradient& a, cudaStream_t stream) {
  if (a.count == 0) return cudaSuccess;
  const int64_t vectors = are_aligned(a.gradient, a.result) ? a.count / kVectorWidth<In> : 0;
  const int64_t work = vectors > 0 ? vectors : a.count;
  const int64_t blocks = std::min(ceil_divide<int64_t>(work, kThreads), int64_t{1} << 30);
  scaled_gradient_kernel<In, Out><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(a, vectors);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_scaled_gradient(const ScaledGradient& arguments, cudaStream_t stream) {
  return visit_type(arguments.result_type, [&]<class Out>(Out) {
    if (arguments.type == CudaType::float32) return launch<float, Out>(arguments, stream);
    if (arguments.type == arguments.result_type) return launch<Out, Out>(arguments, stream);
    return cudaErrorInvalidValue;
  });
}

}  // namespace strata::kernels
