// SPDX-License-Identifier: MIT
// A team of threads that works on one row at a time: a warp, or a whole block.
#pragma once

#include "kernels/device_utils.cuh"

namespace strata::kernels {

// No teams of several warps beside each other in a block: numbered barriers, which they would need, are reserved 16 for
// a block, and an H200 then holds too few blocks (rms_norm 16384 x 4096 with 128 threads a block: 3.4 instead of 3.9
// TB/s).
template <bool kWarpTeam>
class RowTeam {
 public:
  __device__ int size() const { return kWarpTeam ? kWarp : blockDim.x; }
  __device__ int lane() const { return kWarpTeam ? threadIdx.x % kWarp : threadIdx.x; }
  __device__ int index() const { return kWarpTeam ? threadIdx.x / kWarp : 0; }  // in the block
  __device__ int count() const { return kWarpTeam ? blockDim.x / kWarp : 1; }   // teams in the block
  __device__ int64_t first_row() const { return static_cast<int64_t>(blockIdx.x) * count() + index(); }
  __device__ int64_t row_step() const { return static_cast<int64_t>(gridDim.x) * count(); }

  // Sums over the team: the same in every thread, always taken in the same order. One barrier a call: a warp that is
  // two calls ahead, and writes the same half again, has passed the barrier of the call between, which nobody reaches
  // before he has read.
  template <int kCount>
  __device__ void sum(float (&values)[kCount]) {
    for (int i = 0; i < kCount; ++i) values[i] = warp_sum(values[i]);
    if constexpr (!kWarpTeam) {
      __shared__ float sums[2][kCount][kWarp];
      const int warp = static_cast<int>(threadIdx.x) / kWarp, warp_lane = static_cast<int>(threadIdx.x) % kWarp;
      if (warp_lane == 0) {
        for (int i = 0; i < kCount; ++i) sums[half_][i][warp] = values[i];
      }
      __syncthreads();
      const int warps = static_cast<int>(blockDim.x) / kWarp;
      for (int i = 0; i < kCount; ++i) values[i] = warp_sum(warp_lane < warps ? sums[half_][i][warp_lane] : 0.0f);
      half_ ^= 1;
    }
  }

  __device__ float sum(float value) {
    float values[1] = {value};
    sum(values);
    return values[0];
  }

 private:
  int half_ = 0;
};

}  // namespace strata::kernels
