// SPDX-License-Identifier: MIT
// cached_attention: attention of the newest token of each row over the keys and values that a cache keeps. It is the
// step of generation, has no gradient, and is made of ATen's operators on every device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kernels/attention/attention.h"

namespace strata::kernels {

// The cache of one layer. Position p of a row is in slot p % slots, so that the last `slots` positions are there.
struct CachedKeys {
  Tensor key, value;  // [B, K, slots, D]
};

// Returns how many slots a cache for `positions` needs: as many, or the reach of a pattern that is a window. No query
// may see a later key.
int64_t slots_of(const Pattern& pattern, int64_t positions);

// Puts the keys and values of qkv [B, T, (H + 2K) * D] into their slots. positions, int64 [B, T], ascend by one in each
// row. Of more positions than slots the last ones stay.
void store_keys(const CachedKeys& cache, const Tensor& qkv, const Tensor& positions);

// qkv [B, 1, (H + 2K) * D] of the tokens at position [B, 1], whose keys are stored already -> y [B, 1, H * D]. Equals
// the last row of attention() over all positions of the row, of which slots have the last ones.
Tensor cached_attention(const Tensor& qkv, const CachedKeys& cache, const Tensor& position, const Pattern& pattern,
                        const AttentionTerms& terms);

}  // namespace strata::kernels
