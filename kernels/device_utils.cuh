// SPDX-License-Identifier: MIT
// What CUDA kernels share: element types, 16-byte vectors, sums over a warp and over a block.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace strata::kernels {

__device__ inline float to_float(float value) { return value; }
__device__ inline float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ inline float to_float(__half value) { return __half2float(value); }

template <class T>
__device__ inline T from_float(float value) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return value;
  } else {
    return T(value);  // rounds to nearest even
  }
}

// N neighboring elements, read and written by one instruction of up to 16 bytes.
template <class T, int N>
struct alignas(N * sizeof(T)) Vector {
  T elements[N];
};

// Elements of T in 16 bytes.
template <class T>
inline constexpr int kVectorWidth = 16 / sizeof(T);

inline bool is_aligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

inline constexpr int kWarp = 32;

__device__ inline float warp_sum(float value) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffff, value, offset);
  return value;
}

// The sum over all threads of the block, in every thread and always in the same order. blockDim.x is a multiple of 32.
__device__ inline float block_sum(float value) {
  __shared__ float warps[32];
  value = warp_sum(value);
  __syncthreads();  // the sums of the call before have been read
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = value;
  __syncthreads();
  const int count = static_cast<int>(blockDim.x) / kWarp;
  return warp_sum(static_cast<int>(threadIdx.x) % kWarp < count ? warps[threadIdx.x % kWarp] : 0.0f);
}

}  // namespace strata::kernels
