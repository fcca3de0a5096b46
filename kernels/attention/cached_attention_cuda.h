// SPDX-License-Identifier: MIT
// The launcher of cached_attention.cu: rotary positions, the store into the cache, and attention of one token per row,
// in one kernel.
// B batch, H query heads, K key and value heads, D head width
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/cuda_type.h"

namespace strata::kernels {

// qkv [B, (H + 2K) * D], cache [2, B, K, slots, D] -> y [B, H * D], contiguous and at 16-byte boundaries. sinks [H].
// positions [B] of the tokens. cosine and sine [length, D / 2] with a row for each position; null: no rotary positions.
// bias [B, bias_heads, slots], where bias_heads is 1 or H, is added to the scores; null: all keys in the cache are seen.
// The cache and positions are read before the kernel before this one has ended. So the last kernels before this one,
// back to one that was not launched by launch_overlapped, must not write them.
struct CachedAttention {
  CudaType type;
  void *y, *cache;
  const void *qkv, *sinks;
  const int64_t* positions;
  const float *cosine, *sine, *bias;
  int64_t bias_heads, batch, slots;
  int heads, key_value_heads, head_width;
  float scale, softcap;  // of scores; no softcap: 0
};

// True if there is a kernel: D is at most 256, and half a head fills vectors of 16 bytes.
bool has_cached_attention_kernel(CudaType type, int64_t head_width);

cudaError_t launch_cached_attention(const CachedAttention& arguments, cudaStream_t stream);

}  // namespace strata::kernels
