// SPDX-License-Identifier: MIT
// cached_attention in one pass over the cache, without operators of LibTorch: a CUDA kernel on Hopper GPUs, loops on
// CPUs.
#pragma once

#include "kernels/attention/cached/cached_attention.h"

namespace strata::kernels {

// True for caches of fp32, bf16 and fp16 on Hopper GPUs whose head width fills vectors of 16 bytes and is at most 256,
// and for small caches of fp32 on CPUs, where starting an operator takes longer than its work.
bool has_fused_cached_attention(const Tensor& cache);

// cached_attention for such caches.
Tensor fused_cached_attention(const Tensor& qkv, const TokenAngles& angles, const Tensor& cache,
                              const SlotsOfStep& step, const AttentionTerms& terms);

}  // namespace strata::kernels
