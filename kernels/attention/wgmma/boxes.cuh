// SPDX-License-Identifier: MIT
// Boxes of 64 columns of packed rows between global and shared memory, and fragments of wgmma in registers.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace strata::kernels {

inline constexpr int kBoxBytes = 64 * 128;  // 64 rows and 64 columns of 16 bits

// A row of the batch and a residue of its positions, as row_boxes.h explains them.
struct Sequence {
  int batch, residue;
};

__device__ inline void load_rows(unsigned to, const CUtensorMap& map, int column, int row, Sequence sequence,
                                 SharedBarrier barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(to),
      "l"(&map), "r"(barrier.address), "r"(column), "r"(row), "r"(sequence.residue), "r"(sequence.batch)
      : "memory");
}
__device__ inline void store_rows(const CUtensorMap& map, int column, int row, Sequence sequence, unsigned from) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(&map),
               "r"(from), "r"(column), "r"(row), "r"(sequence.residue), "r"(sequence.batch)
               : "memory");
}
__device__ inline void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// A block of 64 rows of a head: kWidth / 64 boxes.
template <int kWidth>
__device__ inline void load_head(unsigned to, const CUtensorMap& map, int head, int row, Sequence sequence,
                                 SharedBarrier barrier) {
#pragma unroll
  for (int i = 0; i < kWidth / 64; ++i) {
    load_rows(to + i * kBoxBytes, map, head * kWidth + i * 64, row, sequence, barrier);
  }
}

__device__ inline float2 load_pair(unsigned place) {
  float2 pair;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(pair.x), "=f"(pair.y) : "r"(place) : "memory");
  return pair;
}
__device__ inline float load_float(unsigned place) {
  float number;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(number) : "r"(place) : "memory");
  return number;
}
__device__ inline float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

template <class T>
__device__ inline unsigned packed(float low, float high) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const unsigned*>(&pair);
  } else {
    const __half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<const unsigned*>(&pair);
  }
}

// Meets the other threads of a warpgroup at a barrier of the hardware.
__device__ inline void meet(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// Rounds the sums of a warp, times `scale`, into its 16 rows of a block of 64 rows.
template <class T, int kWidth>
__device__ inline void store_fragments(const float (&sums)[kWidth / 2], float scale, unsigned block) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4;
  const int row = warp * 16 + lane % 16;
#pragma unroll
  for (int k = 0; k < kWidth / 16; ++k) {
    unsigned words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      words[i] = packed<T>(sums[8 * k + 2 * i] * scale, sums[8 * k + 2 * i + 1] * scale);
    }
    const int chunk = k % 4 * 2 + lane / 16;
    store_matrices(block + k / 4 * kBoxBytes + row * 128 + (chunk ^ (row % 8)) * 16, words[0], words[1], words[2],
                   words[3]);
  }
}

// d = A B^T of two blocks of 64 rows of a head.
template <class T, int kWidth>
__device__ inline void multiply_rows(float (&d)[32], unsigned a, unsigned b) {
  const uint64_t first = matrix_descriptor(a), second = matrix_descriptor(b);
#pragma unroll
  for (int k = 0; k < kWidth / 16; ++k) {
    const int offset = (k / 4 * kBoxBytes + k % 4 * 32) / 16;
    multiply<T>(d, first + offset, second + offset, k > 0);
  }
}
// d += A B for A [64, 64] in registers and a block of 64 rows of a head.
template <class T, int kWidth>
__device__ inline void add_product(float (&d)[kWidth / 2], const unsigned (&a)[16], unsigned b) {
  const uint64_t second = transposed_descriptor(b, kBoxBytes);
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    multiply<T, OperandLayout::transposed>(d, a[4 * k], a[4 * k + 1], a[4 * k + 2], a[4 * k + 3],
                                           second + k * (2048 / 16), 1);
  }
}

}  // namespace strata::kernels
