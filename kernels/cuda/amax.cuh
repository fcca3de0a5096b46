// SPDX-License-Identifier: MIT
// Amax: the largest magnitude of the elements that a kernel reads or stores, and its partial results of amax.h.
#pragma once

#include "kernels/cuda/amax.h"
#include "kernels/cuda/device_utils.cuh"

namespace strata::kernels {

// Returns the largest of the numbers of all threads of the block to each of them. All of them call it, and only once in
// a kernel: a second call would write shared memory that slower threads still read. blockDim.x is a multiple of 32.
__device__ inline unsigned block_max(unsigned value) {
  __shared__ unsigned warps[32];
  value = __reduce_max_sync(0xffffffff, value);
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = value;
  __syncthreads();
  const unsigned lane = threadIdx.x % kWarp;
  return __reduce_max_sync(0xffffffff, lane < blockDim.x / kWarp ? warps[lane] : 0);
}

// A word has the bits of one fp32 number, or of two 16-bit ones in its halves. Magnitudes have the order of their bits:
// NaN is larger than infinity, and infinity than all numbers. Returns the larger ones of the magnitudes in both words;
// `most` has no signs.
template <class T>
__device__ inline unsigned larger_magnitudes(unsigned most, unsigned word) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return max(most, word & 0x7fffffffu);
  } else {
    return __vmaxu2(most, word & 0x7fff7fffu);
  }
}

// The largest magnitude that a thread has seen.
template <class T>
class Amax {
 public:
  __device__ void see(const Packed<T>& vector) {
#pragma unroll
    for (int i = 0; i < 4; ++i) see_word(vector.word(i));
  }
  __device__ void see(T value) {
    if constexpr (sizeof(T) == sizeof(float)) {
      see_word(__float_as_uint(value));
    } else {
      see_word(*reinterpret_cast<const unsigned short*>(&value));
    }
  }

  // The bits of the magnitude in fp32.
  __device__ unsigned fp32_bits() const {
    if constexpr (sizeof(T) == sizeof(float)) {
      return most_;
    } else {
      const Packed<T> halves = {{most_, 0, 0, 0}};
      return max(__float_as_uint(halves.at(0)) & 0x7fffffffu, __float_as_uint(halves.at(1)) & 0x7fffffffu);
    }
  }

  // Writes the partial result of the block; block 0 also writes the zeros of blocks that the grid does not have. Called
  // by all threads of a grid of at most kAmaxPartials blocks.
  __device__ void store(unsigned* partials) const {
    const unsigned most = block_max(fp32_bits());
    const unsigned block = blockIdx.y * gridDim.x + blockIdx.x, blocks = gridDim.x * gridDim.y;
    if (threadIdx.x == 0) partials[block] = most;
    if (block != 0) return;
    for (unsigned i = blocks + threadIdx.x; i < kAmaxPartials; i += blockDim.x) partials[i] = 0;
  }

 private:
  __device__ void see_word(unsigned word) { most_ = larger_magnitudes<T>(most_, word); }

  unsigned most_ = 0;  // two maxima in its halves if T has 16 bits
};

}  // namespace strata::kernels
