// SPDX-License-Identifier: MIT
// A team of threads that works on one row at a time: some warps of a block, whose other warps are teams of the same
// size.
#pragma once

#include "kernels/device_utils.cuh"

namespace strata::kernels {

class RowTeam {
 public:
  __device__ explicit RowTeam(int warps)
      : warps_(warps), index_(static_cast<int>(threadIdx.x) / kWarp / warps), count_(blockDim.x / kWarp / warps) {}

  __device__ int size() const { return warps_ * kWarp; }
  __device__ int lane() const { return static_cast<int>(threadIdx.x) - index_ * size(); }
  __device__ int index() const { return index_; }  // in the block
  __device__ int count() const { return count_; }  // teams in the block
  __device__ int64_t first_row() const { return static_cast<int64_t>(blockIdx.x) * count_ + index_; }
  __device__ int64_t row_step() const { return static_cast<int64_t>(gridDim.x) * count_; }

  // Sums over the team: the same in every thread, always taken in the same order. One barrier a call: a warp that is
  // two calls ahead, and writes the same half again, has passed the barrier of the call between, which nobody reaches
  // before he has read.
  template <int kCount>
  __device__ void sum(float (&values)[kCount]) {
    __shared__ float sums[2][kCount][kWarp];
    for (int i = 0; i < kCount; ++i) values[i] = warp_sum(values[i]);
    if (warps_ == 1) return;
    const int warp = static_cast<int>(threadIdx.x) / kWarp, warp_lane = static_cast<int>(threadIdx.x) % kWarp;
    if (warp_lane == 0) {
      for (int i = 0; i < kCount; ++i) sums[half_][i][warp] = values[i];
    }
    wait();
    for (int i = 0; i < kCount; ++i) {
      values[i] = warp_sum(warp_lane < warps_ ? sums[half_][i][index_ * warps_ + warp_lane] : 0.0f);
    }
    half_ ^= 1;
  }

  __device__ float sum(float value) {
    float values[1] = {value};
    sum(values);
    return values[0];
  }

 private:
  // Barrier 0 is the block's own.
  __device__ void wait() const { asm volatile("bar.sync %0, %1;" ::"r"(index_ + 1), "r"(size()) : "memory"); }

  int warps_, index_, count_, half_ = 0;
};

inline constexpr int kMaxTeams = 15;  // a block has 16 barriers

}  // namespace strata::kernels
