// SPDX-License-Identifier: MIT
// cached_attention: attention of the newest token of each row over the keys and values that a cache keeps. It is the
// step of generation, and has no gradient. On Hopper GPUs it is one CUDA kernel, in fp32 on CPUs a few loops, and
// otherwise made of ATen's operators.
// B batch, T positions, H query heads, K key and value heads, D head width
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kernels/attention/attention.h"

namespace strata::kernels {

// The cache of one layer is a tensor [2, B, K, slots, D]: keys, then values. Position p of a row is in slot p % slots,
// so that the last `slots` positions are there.

// Returns how many slots a cache for `positions` needs: as many, or the reach of a pattern that is a window. No query
// may see a later key.
int64_t slots_of(const Pattern& pattern, int64_t positions);

// The slots of a step. Layers with the same pattern share them.
struct SlotsOfStep {
  Tensor positions;  // int64 [B, T] of the tokens
  Tensor slot = {};  // int64 [B, T]: where the keys of the step go; undefined if the kernel finds it
  // If T is 1, fp32 [B, 1 or H, slots]: -infinity for keys that are not seen, and the term of ALiBi. Undefined if the
  // kernel shall see all keys of the cache.
  Tensor bias = {};
};

// positions, int64 [B, T], of the tokens of a step. In each row the positions ascend by one. alibi_heads is H, or 0
// without ALiBi.
SlotsOfStep slots_of_step(const Tensor& positions, const Tensor& cache, const Pattern& pattern, int64_t alibi_heads);

// Puts the keys and values of qkv [B, T, (H + 2K) * D] into their slots. Of more positions than slots the last ones
// stay.
void store_keys_and_values(const Tensor& cache, const Tensor& qkv, const Tensor& slot);

// The rotary positions of the newest tokens: fp32 [B, D / 2], or undefined without them. `level` is that of op rotary
// where no kernel turns queries and keys itself.
struct TokenAngles {
  Tensor cosine = {}, sine = {};
  Level level = Level::aten;
};

// qkv [B, 1, (H + 2K) * D] of the newest tokens, before their rotary positions -> y [B, 1, H * D]. Stores the keys and
// values too, and may overwrite qkv. Equals the last row of attention() over all positions of the row, of which slots
// have the last ones. terms.alibi is in step.bias already.
Tensor cached_attention(const Tensor& qkv, const TokenAngles& angles, const Tensor& cache, const SlotsOfStep& step,
                        const AttentionTerms& terms);

}  // namespace strata::kernels
