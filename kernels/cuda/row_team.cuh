// SPDX-License-Identifier: MIT
// RowTeam: the warps that work on one row at a time, either one of several teams of a block or the whole block.
#pragma once

#include "kernels/cuda/bulk_ring.cuh"

namespace strata::kernels {

// Several teams in a block need numbered barriers, and such a block reserves all 16 of them. That is too many if a
// multiprocessor should hold more than a few blocks (rms_norm 16384 x 4096, 128 threads per block: 3.4 instead of 3.9
// TB/s).
template <bool kWholeBlock>
class RowTeam {
 public:
  __device__ explicit RowTeam(int warps)
      : warps_(warps),
        index_(kWholeBlock ? 0 : static_cast<int>(kept(threadIdx.x / (warps * kWarp)))),
        lane_(static_cast<int>(kept(threadIdx.x - index_ * warps * kWarp))) {}

  __device__ int size() const { return warps_ * kWarp; }
  __device__ int lane() const { return lane_; }
  __device__ int warp_lane() const { return lane_ % kWarp; }
  __device__ int index() const { return index_; }  // in the block

  // Sums over the team. Every thread gets the same sums, always added in the same order. A call needs one barrier only:
  // a warp writes the same half again two calls later, after the barrier of the call in between, and all warps read
  // their sums before they arrive there.
  template <int kCount>
  __device__ void sum(float (&values)[kCount]) {
    __shared__ float sums[2][kCount][kWarp];
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] = warp_sum(values[i]);
    if (warps_ == 1) return;
    const int first = index_ * warps_;
    if (warp_lane() == 0) {
      for (int i = 0; i < kCount; ++i) sums[half_][i][first + lane_ / kWarp] = values[i];
    }
    wait_for_team();
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      values[i] = warp_sum(warp_lane() < warps_ ? sums[half_][i][first + warp_lane()] : 0.0f);
    }
    half_ ^= 1;
  }

  __device__ float sum(float value) {
    float values[1] = {value};
    sum(values);
    return values[0];
  }

 private:
  // Barrier 0 belongs to __syncthreads(). At most 8 teams have several warps, so barriers 1 to 8 are enough.
  __device__ void wait_for_team() const {
    if constexpr (kWholeBlock) {
      __syncthreads();
    } else {
      asm volatile("bar.sync %0, %1;" ::"r"(index_ + 1), "r"(size()) : "memory");
    }
  }

  int warps_, index_, lane_, half_ = 0;
};

}  // namespace strata::kernels
