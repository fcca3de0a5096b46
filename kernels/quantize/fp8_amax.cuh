// SPDX-License-Identifier: MIT
// Largest magnitudes of a patch, and that of a matrix between the kernel that finds it and those that cast: partial
// results of blocks.
#pragma once

#include "kernels/cuda/amax.cuh"
#include "kernels/quantize/fp8_codes.cuh"

namespace strata::kernels {

static_assert(kAmaxPartials == 4 * kThreads);

__device__ inline bool has_history(const Fp8Cast& cast) { return cast.past != nullptr && __ldcg(cast.past) > 0; }

template <class T>
__device__ inline void see(Amax<T>& amax, const Patch<T>& patch) {
#pragma unroll
  for (int i = 0; i < kPatch; ++i) {
#pragma unroll
    for (int j = 0; j < kVectors<T>; ++j) amax.see(patch.vectors[i][j]);
  }
}

// The fp32 bits of the largest magnitude in row i of a patch.
template <class T>
__device__ unsigned largest_of_row(const Patch<T>& patch, int i) {
  Amax<T> amax;
#pragma unroll
  for (int j = 0; j < kVectors<T>; ++j) amax.see(patch.vectors[i][j]);
  return amax.fp32_bits();
}

// The same of each column.
template <class T>
__device__ void find_largest_of_columns(const Patch<T>& patch, unsigned (&largest)[kPatch]) {
  Packed<T> words[kVectors<T>] = {};
#pragma unroll
  for (int i = 0; i < kPatch; ++i) {
#pragma unroll
    for (int word = 0; word < 4 * kVectors<T>; ++word) {
      unsigned& most = words[word / 4].word(word % 4);
      most = larger_magnitudes<T>(most, patch.vectors[i][word / 4].word(word % 4));
    }
  }
#pragma unroll
  for (int k = 0; k < kPatch; ++k) {
    const float most = words[k / kVectorWidth<T>].at(k % kVectorWidth<T>);
    largest[k] = __float_as_uint(most) & 0x7fffffffu;
  }
}

// The largest magnitude that the kernel before has found. Called by all threads of the block.
__device__ inline unsigned found_amax(const Fp8Cast& cast) {
  const uint4 partials = __ldcg(reinterpret_cast<const uint4*>(cast.amax) + threadIdx.x);
  return block_max(max(max(partials.x, partials.y), max(partials.z, partials.w)));
}

}  // namespace strata::kernels
