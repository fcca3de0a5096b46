// SPDX-License-Identifier: MIT
// RowState: the softmax of rows over the tiles of keys so far (Milakov and Gimelshein 2018).
#pragma once

#include "kernels/attention/wgmma/boxes.cuh"

namespace strata::kernels {

// The softmax of the two rows of a thread, over the steps so far.
struct RowState {
  float largest[2], shift[2], weights[2];  // weights are those of this thread's columns

  // Takes the scores of a step, turns them into probabilities, and returns whether sums must be multiplied by `decay`.
  template <int kCount, bool kLazy>
  __device__ bool take(float (&scores)[kCount], float scale, float (&decay)[2]) {
    constexpr float kGrowth = 8;
    float top[2] = {scores[0], scores[2]};
#pragma unroll
    for (int j = 0; j < kCount / 4; ++j) {
      top[0] = fmaxf(top[0], fmaxf(scores[4 * j], scores[4 * j + 1]));
      top[1] = fmaxf(top[1], fmaxf(scores[4 * j + 2], scores[4 * j + 3]));
    }
    bool grows = false;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      top[i] = fmaxf(top[i], __shfl_xor_sync(0xffffffff, top[i], 1));
      top[i] = fmaxf(top[i], __shfl_xor_sync(0xffffffff, top[i], 2));
      const float found = fmaxf(largest[i], top[i] * scale);
      decay[i] = 1;
      if (!kLazy || found > largest[i] + kGrowth) {
        const float next = found == -INFINITY ? 0 : found;
        decay[i] = power_of_two(largest[i] - next);
        largest[i] = found;
        shift[i] = next;
        grows = true;
      }
    }
    float sum[2] = {0, 0};
#pragma unroll
    for (int j = 0; j < kCount / 4; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        scores[4 * j + i] = power_of_two(fmaf(scores[4 * j + i], scale, -shift[i / 2]));
        sum[i / 2] += scores[4 * j + i];
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) weights[i] = fmaf(weights[i], decay[i], sum[i]);
    return kLazy ? __any_sync(0xffffffff, grows) : true;
  }
};

}  // namespace strata::kernels
