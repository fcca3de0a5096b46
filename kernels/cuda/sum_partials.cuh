// SPDX-License-Identifier: MIT
// sum_partials: the last step of a weight gradient at level cuda. Adds partial sums, one row per block, in a fixed
// order.
#pragma once

#include "kernels/cuda/device_utils.cuh"
#include "kernels/cuda/launch_overlapped.cuh"

namespace strata::kernels {

// The partial sums of one weight gradient, and the tensor that receives their sum.
struct PartialSums {
  void* gradient;
  bool add;
  const float* partials;  // [count, width]
  int64_t count;
};

// A block adds 32 columns of one of two weights, by blockIdx.y: warp w adds the partials w, w + 32, ..., then
// the sums of the warps are added in order.
template <class T>
__global__ void sum_partials_kernel(PartialSums first, PartialSums second, int64_t width) {
  wait_for_kernel_before();
  const auto [gradient, add, partials, count] = blockIdx.y == 0 ? first : second;
  __shared__ float sums[kWarp][kWarp + 1];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kWarp + lane;
  float sum = 0.0f;
  if (column < width) {
#pragma unroll 8
    for (int64_t i = warp; i < count; i += kWarp) sum += partials[i * width + column];
  }
  sums[lane][warp] = sum;
  __syncthreads();
  sum = warp_sum(sums[warp][lane]);
  const int64_t own = static_cast<int64_t>(blockIdx.x) * kWarp + warp;
  if (lane != 0 || own >= width) return;
  T* result = static_cast<T*>(gradient) + own;
  *result = from_float<T>((add ? to_float(*result) : 0.0f) + sum);
}

// Adds the partial sums of `sets` weights, one or two, of `type` and [width].
inline cudaError_t sum_partials(CudaType type, const PartialSums& first, const PartialSums& second, int sets,
                                int64_t width, cudaStream_t stream) {
  return visit_type(type, [&]<class T>(T) {
    const dim3 blocks(static_cast<unsigned>(ceil_divide<int64_t>(width, kWarp)), sets);
    return launch_overlapped(sum_partials_kernel<T>, blocks, kWarp * kWarp, 0, stream, first, second, width);
  });
}

}  // namespace strata::kernels
