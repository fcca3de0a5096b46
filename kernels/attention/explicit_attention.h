// SPDX-License-Identifier: MIT
// Attention with terms at level aten: as the definition says it, with the scores of all pairs in memory while it runs.
#pragma once

#include "kernels/attention/attention.h"

namespace strata::kernels {

AttentionOp::Forward explicit_attention_forward;
AttentionOp::Backward explicit_attention_backward;

// Returns a mask [B or 1, 1, Q, T] that is true if a query may attend to a key.
Tensor visible_pairs(const Tensor& qkv, const AttentionOp::Arguments& arguments);

}  // namespace strata::kernels
