// SPDX-License-Identifier: MIT
// Attention with the roundings of kernels for tensor cores: P, dS and y are rounded to the 16-bit type of qkv, and all
// else is fp32. The backward reads the rounded y. With causal | prefix(n), gradients are two sums, one over the causal
// pairs and one over the pairs above the diagonal, which are rounded and then added, as at level cuda.
#pragma once

#include "kernels/attention/attention.h"

namespace strata::kernels {

enum class Mistake {
  none,
  delta_without_a_column,  // delta, the sum of grad_y * y, leaves out a column
  delta_of_next_row,
  steeper_scores,      // dS is 1 % too large
  no_early_gradients,  // dQ of the first 8 queries is 0
  coarse_shares,       // P has 5 bits in the backward
  // The sum over the pairs of causal | prefix(n) above the diagonal
  none_above,         // is missing
  diagonal_twice,     // has the diagonal too
  without_next_keys,  // lacks the pairs right above the diagonal
};

Tensor tensor_core_attention(const Tensor& qkv, const AttentionOp::Arguments& arguments,
                             Mistake mistake = Mistake::none);

}  // namespace strata::kernels
