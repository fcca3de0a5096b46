// SPDX-License-Identifier: MIT
// A team of warps that works on one row at a time; a block has one team or several.
#pragma once

#include "kernels/device_utils.cuh"

namespace strata::kernels {

class RowTeam {
 public:
  __device__ explicit RowTeam(int warps) : warps_(warps), index_(static_cast<int>(threadIdx.x) / (warps * kWarp)) {}

  __device__ int size() const { return warps_ * kWarp; }
  __device__ int lane() const { return static_cast<int>(threadIdx.x) - index_ * size(); }
  __device__ int index() const { return index_; }  // in the block

  // Sums over the team: the same in every thread, always taken in the same order. One barrier a call: a warp that is
  // two calls ahead, and writes the same half again, has passed the barrier of the call between, which nobody reaches
  // before he has read.
  template <int kCount>
  __device__ void sum(float (&values)[kCount]) {
    __shared__ float sums[2][kCount][kWarp];
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] = warp_sum(values[i]);
    if (warps_ == 1) return;
    const int warp = static_cast<int>(threadIdx.x) / kWarp, warp_lane = static_cast<int>(threadIdx.x) % kWarp;
    if (warp_lane == 0) {
      for (int i = 0; i < kCount; ++i) sums[half_][i][warp] = values[i];
    }
    wait_for_team();
    const int first = index_ * warps_;
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      values[i] = warp_sum(warp_lane < warps_ ? sums[half_][i][first + warp_lane] : 0.0f);
    half_ ^= 1;
  }

  __device__ float sum(float value) {
    float values[1] = {value};
    sum(values);
    return values[0];
  }

 private:
  // Barrier 0 is that of the whole block. Teams of several warps are at most 8, barriers 16.
  __device__ void wait_for_team() const { asm volatile("bar.sync %0, %1;" ::"r"(index_ + 1), "r"(size()) : "memory"); }

  int warps_, index_, half_ = 0;
};

}  // namespace strata::kernels
