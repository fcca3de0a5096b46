// SPDX-License-Identifier: MIT
// The likeliest token of each row on a Hopper GPU, by one kernel.
#pragma once

#include <ATen/core/Tensor.h>

namespace strata::generation {

// True for logits [B, V] of fp32, bf16 and fp16 on Hopper GPUs, with at most 65535 rows.
bool has_likeliest_kernel(const at::Tensor& logits);

// sample() of such logits at temperature 0: int64 [B], kNoToken where the likeliest logit is NaN or infinite.
at::Tensor likeliest_by_kernel(const at::Tensor& logits);

}  // namespace strata::generation
