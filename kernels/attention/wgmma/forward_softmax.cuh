// SPDX-License-Identifier: MIT
// RowState: the softmax of rows over the tiles of keys so far (Milakov and Gimelshein 2018).
#pragma once

#include "kernels/attention/wgmma/boxes.cuh"

namespace strata::kernels {

// The softmax of the two rows of a thread, over the steps so far. Scores are powers of two.
struct RowState {
  float largest[2];  // of all columns; -infinity: no key is visible yet
  float weights[2];  // of the columns of this thread

  // What is subtracted from scores.
  __device__ float shift(int i) const { return largest[i] == -INFINITY ? 0 : largest[i]; }

  // Takes the scores of a step, which are multiplied by `scale`. Sums of earlier steps must be multiplied by `decay`.
  template <int kCount>
  __device__ void raise(const float (&scores)[kCount], float scale, float (&decay)[2]) {
    float top[2] = {scores[0], scores[2]};
#pragma unroll
    for (int j = 0; j < kCount / 4; ++j) {
      top[0] = fmaxf(top[0], fmaxf(scores[4 * j], scores[4 * j + 1]));
      top[1] = fmaxf(top[1], fmaxf(scores[4 * j + 2], scores[4 * j + 3]));
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      top[i] = fmaxf(top[i], __shfl_xor_sync(0xffffffff, top[i], 1));
      top[i] = fmaxf(top[i], __shfl_xor_sync(0xffffffff, top[i], 2));
      const float before = largest[i];
      largest[i] = fmaxf(before, top[i] * scale);
      decay[i] = power_of_two(before - shift(i));
    }
  }

  // Turns the scores into probabilities, after raise().
  template <int kCount>
  __device__ void exponentiate(float (&scores)[kCount], float scale, const float (&decay)[2]) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float sum = 0;
#pragma unroll
      for (int j = 0; j < kCount / 4; ++j) {
#pragma unroll
        for (int k = 2 * i; k < 2 * i + 2; ++k) {
          scores[4 * j + k] = power_of_two(fmaf(scores[4 * j + k], scale, -shift(i)));
          sum += scores[4 * j + k];
        }
      }
      weights[i] = fmaf(weights[i], decay[i], sum);
    }
  }
};

}  // namespace strata::kernels
