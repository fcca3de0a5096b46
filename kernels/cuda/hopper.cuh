// SPDX-License-Identifier: MIT
// Instructions of Hopper that a matrix product needs and that CUDA C++ has no functions for. The TMA copy engine copies
// boxes (2-d tiles) of a matrix, and wgmma multiplies with a warpgroup. Addresses are addresses in shared memory.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/bulk_ring.cuh"

namespace strata::kernels {

__device__ inline unsigned block_in_cluster() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// Arrives at the same barrier of another block of the cluster.
__device__ inline void arrive_at(SharedBarrier barrier, unsigned block) {
  asm volatile(
      "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(barrier.address),
      "r"(block)
      : "memory");
}

// Stores a word at the same address in another block of the cluster, and reports its 4 bytes to the same barrier there.
__device__ inline void send_word(unsigned word, unsigned to, SharedBarrier barrier, unsigned block) {
  asm volatile(
      "{\n.reg .b32 there, barrier_there;\n"
      "mapa.shared::cluster.u32 there, %0, %3;\n"
      "mapa.shared::cluster.u32 barrier_there, %1, %3;\n"
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [there], %2, [barrier_there];\n}" ::"r"(to),
      "r"(barrier.address), "r"(word), "r"(block)
      : "memory");
}

// Copies a box of a matrix to shared memory and reports its bytes to `barrier`. `column` counts along adjacent
// elements.
__device__ inline void load_box(unsigned to, const CUtensorMap& map, int column, int row, SharedBarrier barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(
          to),
      "l"(&map), "r"(barrier.address), "r"(column), "r"(row)
      : "memory");
}
// Copies a box to the same address in every block of the bit mask `blocks`, and reports its bytes to the barrier of
// each.
__device__ inline void load_box_to(uint16_t blocks, unsigned to, const CUtensorMap& map, int column, int row,
                                   SharedBarrier barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%4, %5}], [%2], %3;" ::"r"(to),
      "l"(&map), "r"(barrier.address), "h"(blocks), "r"(column), "r"(row)
      : "memory");
}
// Raise or lower the number of registers per thread of this warpgroup to kCount.
template <int kCount>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ inline void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}

__device__ inline unsigned load_word(unsigned place) {
  unsigned word;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(place) : "memory");
  return word;
}

__device__ inline void store_words(unsigned place, int first, int second) {
  asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(place), "r"(first), "r"(second) : "memory");
}

// Stores four 8 x 8 matrices of 16-bit elements from the registers of a warp. Lane i passes the address of row i % 8 of
// matrix i / 8.
__device__ inline void store_matrices(unsigned place, unsigned a, unsigned b, unsigned c, unsigned d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(place), "r"(a), "r"(b), "r"(c),
               "r"(d)
               : "memory");
}

// Makes what this thread wrote to shared memory visible to copies that start after the next barrier.
__device__ inline void show_to_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// Copies a box from shared memory to the matrix. Elements outside the matrix are skipped.
__device__ inline void store_box(const CUtensorMap& map, int column, int row, unsigned from) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];\n"
      "cp.async.bulk.commit_group;" ::"l"(&map),
      "r"(from), "r"(column), "r"(row)
      : "memory");
}
// Waits until the boxes that this thread stored have been read from shared memory.
__device__ inline void wait_for_stores() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }

// The wgmma descriptor of a matrix in shared memory: rows of 128 bytes, adjacent along k, swizzled by the copy engine.
__device__ inline uint64_t matrix_descriptor(unsigned address) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62, kEightRows = uint64_t{1024 / 16} << 32;
  return kSwizzle128 | kEightRows | (uint64_t{1} << 16) | ((address & 0x3ffff) / 16);
}

__device__ inline void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
__device__ inline void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// Keeps the compiler from reading the sums before this point.
template <int kCount>
__device__ inline void hold(float (&sums)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}

// clang-format off
#define STRATA_TEN(t) "%" #t "0,%" #t "1,%" #t "2,%" #t "3,%" #t "4,%" #t "5,%" #t "6,%" #t "7,%" #t "8,%" #t "9,"
#define STRATA_NINETY "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9," STRATA_TEN(1) STRATA_TEN(2) STRATA_TEN(3) STRATA_TEN(4) STRATA_TEN(5) STRATA_TEN(6) STRATA_TEN(7) STRATA_TEN(8)
#define STRATA_SUMS8(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define STRATA_SUMS32(i) STRATA_SUMS8(i), STRATA_SUMS8(i + 8), STRATA_SUMS8(i + 16), STRATA_SUMS8(i + 24)
#define STRATA_PRODUCT(type)                                                                    \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"                                       \
      "wgmma.mma_async.sync.aligned.m64n256k16.f32." type "." type " {" STRATA_NINETY STRATA_TEN(9) STRATA_TEN(10) \
      STRATA_TEN(11) "%120,%121,%122,%123,%124,%125,%126,%127}, %128, %129, p, 1, 1, 0, 0;\n}" \
      : STRATA_SUMS32(0), STRATA_SUMS32(32), STRATA_SUMS32(64), STRATA_SUMS32(96)                  \
      : "l"(a), "l"(b), "r"(add))
// clang-format on

// Computes d [64, 256] += A [64, 16] B [16, 256] over the warpgroup, or d = A B if `add` is 0.
template <class T>
__device__ inline void product(float (&d)[128], uint64_t a, uint64_t b, unsigned add) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    STRATA_PRODUCT("bf16");
  } else {
    STRATA_PRODUCT("f16");
  }
}

#undef STRATA_TEN
#undef STRATA_NINETY
#undef STRATA_SUMS8
#undef STRATA_SUMS32
#undef STRATA_PRODUCT

}  // namespace strata::kernels
