// SPDX-License-Identifier: MIT
// CachedAttention: the arguments of the kernels of cached_attention, and the launcher of cached_attention.cu. Rotary
// positions, the store into the cache, and attention of one token per row are one kernel.
// B batch, H query heads, K key and value heads, D head width
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/cuda_type.h"

namespace strata::kernels {

inline constexpr int64_t kWidestCachedHead = 256;

// qkv [B, (H + 2K) * D] and y [B, H * D], contiguous. sinks [H]; null: none. The keys of a row are [K, slots, D] and
// the keys of the next row follow; values are values_offset elements after their keys. positions [B] of the tokens.
// cosine and sine [B, D / 2] of these positions; null: no rotary positions.
// bias [B, bias_heads, slots], where bias_heads is 1 or H, is added to the scores; null: all keys in the cache are
// seen.
struct CachedAttention {
  void *y, *cache;
  const void *qkv, *sinks;
  const int64_t *positions;
  const float *cosine, *sine, *bias;
  int64_t bias_heads, batch, slots, values_offset;
  int heads, key_value_heads, head_width;
  float scale, softcap;  // factor and cap of scores; no softcap: 0
};

// D is at most kWidestCachedHead, each head begins at a 16-byte boundary and fills vectors of 16 bytes. The cache and
// positions are read before the kernel before this one has ended. So the last kernels before this one, back to one that
// was not launched by launch_overlapped, must not write them.
cudaError_t launch_cached_attention(CudaType type, const CachedAttention &arguments, cudaStream_t stream);

// The same on CPUs for small caches, by loops. All tensors are fp32. The operators of ATen would take most of a step to
// start.
void attend_by_loops(const CachedAttention &arguments);

}  // namespace strata::kernels
