// SPDX-License-Identifier: MIT
// The definition of attention in attention.py, of all heads and queries or of a part of them.
#pragma once

#include "kernels/attention/attention.h"

namespace strata::kernels {

// Queries first_query <= i < first_query + queries of the heads that qkv has. Those are heads from first_head on of
// `of_heads` heads, which the slopes of alibi depend on. 0 queries and 0 heads are all.
struct DefinitionPart {
  int64_t first_query = 0, queries = 0, first_head = 0, of_heads = 0;
};

// Returns y [B, queries, H * D] by TorchScript. Autograd differentiates it.
Tensor attention_by_definition(const Tensor& qkv, const AttentionOp::Shape& shape, const DefinitionPart& part = {});

// Returns the scores [B, H, queries, T] without the sink, -inf for pairs that are not visible. qkv is fp32 or fp64, and
// all numbers of the part are given.
Tensor scores_by_definition(const Tensor& qkv, const AttentionOp::Shape& shape, const DefinitionPart& part);

}  // namespace strata::kernels
