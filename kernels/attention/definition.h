// SPDX-License-Identifier: MIT
// The definition of attention in attention.py, of all heads or of a part of them.
#pragma once

#include "kernels/attention/attention.h"

namespace strata::kernels {

// A call may have heads from first_head on of `all_heads` heads, which the slopes of alibi depend on. 0 heads are all.
struct HeadRange {
  int64_t first_head = 0, all_heads = 0;
};

// Returns y [B, Q, H * D] by TorchScript. Autograd differentiates it.
Tensor attention_by_definition(const Tensor& qkv, const AttentionOp::Arguments& arguments, const HeadRange& part = {});

// query [B, H, Q, D] and key [B, K, T, D] in fp32 or fp64 -> the scores [B, H, Q, T] without the sink, -inf for pairs
// that are not visible. The `keys` of the arguments have the place of the queries only.
Tensor scores_by_definition(const Tensor& query, const Tensor& key, const AttentionOp::Arguments& arguments,
                            const HeadRange& part);

}  // namespace strata::kernels
