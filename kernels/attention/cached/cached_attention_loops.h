// SPDX-License-Identifier: MIT
// attend_by_loops: cached_attention on CPUs for small caches. The operators of ATen would take most of a step to start.
#pragma once

#include "kernels/attention/cached/cached_attention_cuda.h"

namespace strata::kernels {

// All tensors are fp32.
void attend_by_loops(const CachedAttention& arguments);

}  // namespace strata::kernels
