// SPDX-License-Identifier: MIT
// The kernels of cached_attention: CUDA on Hopper GPUs, and loops on CPUs.
#pragma once

#include "kernels/attention/cached/cached_attention.h"

namespace strata::kernels {

// True for caches of fp32, bf16 and fp16 on Hopper GPUs whose head width fills vectors of 16 bytes and is at most 256,
// and for small caches of fp32 on CPUs, where starting an operator takes longer than its work.
bool has_cached_attention_kernel(const Tensor& cache);

// cached_attention for such caches.
Tensor cached_attention_by_kernel(const Tensor& qkv, const TokenAngles& angles, const Tensor& cache,
                                  const SlotsOfStep& step, const AttentionTerms& terms);

}  // namespace strata::kernels
