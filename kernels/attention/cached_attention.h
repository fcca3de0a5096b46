// SPDX-License-Identifier: MIT
// cached_attention: attention of the newest token of each row over the keys and values that a cache keeps. It is the
// step of generation, has no gradient, and is made of ATen's operators on every device.
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

// What a step needs to know of the slots. Layers with the same pattern share it.
struct SlotsOfStep {
  Tensor slot;       // int64 [B, T]: where the keys of the step go
  Tensor bias = {};  // fp32 [B, 1 or H, slots], if T is 1: -infinity for keys that are not seen, and the term of ALiBi
};

// positions, int64 [B, T], of the tokens of a step. They ascend by one in each row. alibi_heads is H, or 0 without
// ALiBi.
SlotsOfStep slots_of_step(const Tensor& positions, int64_t slots, const Pattern& pattern, int64_t alibi_heads);

// Puts the keys and values of qkv [B, T, (H + 2K) * D] into their slots. Of more positions than slots the last ones
// stay.
void store_keys_and_values(const Tensor& cache, const Tensor& qkv, const Tensor& slot);

// qkv [B, 1, (H + 2K) * D] of the newest tokens, whose keys are stored already -> y [B, 1, H * D]. Equals the last row
// of attention() over all positions of the row, of which slots have the last ones. `bias` has ALiBi already.
Tensor cached_attention(const Tensor& qkv, const Tensor& cache, const Tensor& bias, const AttentionTerms& terms);

}  // namespace strata::kernels
