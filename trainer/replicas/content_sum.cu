// SPDX-License-Identifier: MIT
// content_sum: each thread mixes every n-th element with its index; a warp adds its sum to the sum of the tensor. The
// sum is of integers, so the order of the warps does not matter.
#include <algorithm>

#include "base/content_keys.h"
#include "trainer/replicas/content_sum_cuda.h"

namespace strata::trainer {
namespace {

constexpr int kThreads = 256, kWarp = 32;
constexpr int64_t kMostBlocks = 1024;  // each multiprocessor has several, and the sum gets at most 8192 additions

// As sum_of_piece in base/digest.cc, where the reasons are.
__device__ uint64_t mix(uint64_t index, uint32_t bits) {
  const uint64_t a = index ^ kIndexKey, b = (uint64_t{bits} << 32 | bits) ^ kValueKey;
  const uint64_t low = a * b, high = __umul64hi(a, b);
  return (low ^ kValueKey) * (high ^ kIndexKey) ^ high;
}

__global__ void __launch_bounds__(kThreads)
    content_sum_kernel(const float* values, int64_t count, int64_t offset, unsigned long long* sum) {
  unsigned long long own = 0;
#pragma unroll 4
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += int64_t{gridDim.x} * kThreads) {
    own += mix(static_cast<uint64_t>(offset + i), __float_as_uint(values[i]));
  }
  for (int distance = kWarp / 2; distance > 0; distance /= 2) own += __shfl_down_sync(0xffffffff, own, distance);
  if (threadIdx.x % kWarp == 0) atomicAdd(sum, own);
}

}  // namespace

cudaError_t launch_content_sum(const float* values, int64_t count, int64_t offset, int64_t* sum, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  const auto blocks = static_cast<unsigned>(std::min(kMostBlocks, (count + kThreads - 1) / kThreads));
  content_sum_kernel<<<blocks, kThreads, 0, stream>>>(values, count, offset,
                                                      reinterpret_cast<unsigned long long*>(sum));
  return cudaGetLastError();
}

}  // namespace strata::trainer
