// SPDX-License-Identifier: MIT
// sum_partials: the last step of a weight gradient at level cuda. Adds partial sums, one row per block, in a fixed
// order.
#pragma once

#include "kernels/cuda/device_utils.cuh"
#include "kernels/cuda/launch_overlapped.cuh"
#include "kernels/cuda/weight_gradient.h"

namespace strata::kernels {

// The partial sums of one weight gradient, and the tensor that receives their sum.
struct PartialSums {
  WeightGradient gradient;
  const float* partials;  // [count, width]
  int64_t count;
};

// A block adds 32 columns of one of two weights, by blockIdx.y: warp w adds the partials w, w + 32, ..., then the sums
// of the warps are added in order.
template <Code kCode, class T>
__global__ void sum_partials_kernel(PartialSums first, PartialSums second, int64_t width) {
  wait_for_kernel_before<kCode>();
  const auto [gradient, partials, count] = blockIdx.y == 0 ? first : second;
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
  T* result = static_cast<T*>(gradient.data) + own;
  *result = from_float<T>((gradient.add ? to_float(*result) : 0.0f) + sum);
}

// Adds the partial sums of `first`, or of both if `sets` is 2. Both gradients have one type then.
template <Code kCode>
cudaError_t launch_sum_partials(const PartialSums& first, const PartialSums& second, int sets, int64_t width,
                                cudaStream_t stream) {
  return visit_type(first.gradient.type, [&]<class T>(T) {
    const dim3 blocks(static_cast<unsigned>(ceil_divide<int64_t>(width, kWarp)), sets);
    return launch_overlapped<kCode>(sum_partials_kernel<kCode, T>, blocks, kWarp * kWarp, 0, stream, first, second,
                                    width);
  });
}

// Adds the partial sums of two weights of `width`, in one launch if their gradients have the same type. A gradient that
// is not needed is left out.
template <Code kCode>
cudaError_t sum_partials(const PartialSums& first, const PartialSums& second, int64_t width, cudaStream_t stream) {
  const WeightGradient &one = first.gradient, &other = second.gradient;
  const bool together = one.data != nullptr && other.data != nullptr && one.type == other.type;
  if (one.data != nullptr) {
    const cudaError_t status = launch_sum_partials<kCode>(first, second, together ? 2 : 1, width, stream);
    if (status != cudaSuccess) return status;
  }
  if (other.data == nullptr || together) return cudaSuccess;
  return launch_sum_partials<kCode>(second, {}, 1, width, stream);
}

}  // namespace strata::kernels
