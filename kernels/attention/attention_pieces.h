// SPDX-License-Identifier: MIT
// The definition of attention with its gradients, piece by piece. A piece is a range of queries, and the heads that
// share one key and value head. So the scores of all pairs are never in memory at once. The largest tensor of a piece
// has at most `elements` elements, or the elements of one query if these are more.
#pragma once

#include <vector>

#include "kernels/attention/attention.h"

namespace strata::kernels {

// Returns y, the gradient of qkv, the gradient of keys and values if queries are a part of each row, and the gradient
// of the sinks if there are any. They are added in fp32 or wider, and rounded to the type of qkv once.
std::vector<Tensor> attention_in_pieces(const Tensor& qkv, const AttentionOp::Arguments& arguments,
                                        const Tensor& grad_y, int64_t elements);

}  // namespace strata::kernels
