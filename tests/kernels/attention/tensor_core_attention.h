// SPDX-License-Identifier: MIT
// Attention with the roundings of kernels for tensor cores: P, dS and y are rounded to the 16-bit type of qkv, and all
// else is fp32. The backward reads the rounded y. With causal | prefix(n), gradients of the keys are two sums, one over
// the queries before n and one over the later queries, which are rounded and then added, as at level cuda.
#pragma once

#include "kernels/attention/attention.h"

namespace strata::kernels {

enum class Mistake {
  none,
  delta_without_a_column,  // of grad_y * y
  delta_of_next_row,
  steeper_scores,      // dS is 1 % too large
  no_early_gradients,  // dQ of the first 8 queries is 0
  coarse_shares,       // P has 5 bits in the backward
  // Gradients of the keys before n of causal | prefix(n) lack the queries before n, or those from n on.
  prefix_without_own_queries,
  prefix_without_later_queries,
};

Tensor tensor_core_attention(const Tensor& qkv, const AttentionOp::Shape& shape, Mistake mistake = Mistake::none);

}  // namespace strata::kernels
