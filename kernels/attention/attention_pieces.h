// SPDX-License-Identifier: MIT
// The definition of attention with its gradients, and what 16-bit kernels may add to its error, piece by piece. A piece
// is a range of queries, and the heads that share one key and value head. So the scores of all pairs are never in
// memory at once. The largest tensor of a piece has at most `elements` elements, or those of one query.
#pragma once

#include <vector>

#include "kernels/attention/attention.h"

namespace strata::kernels {

// Returns y, the gradient of qkv, that of keys and values if queries are a part of each row, and that of the sinks if
// there are any. They are added in fp32 or wider, and rounded to the type of qkv once.
std::vector<Tensor> attention_in_pieces(const Tensor& qkv, const AttentionOp::Shape& shape, const Tensor& grad_y,
                                        int64_t elements);

// Returns an undefined tensor for y, then the variance of the error of the same gradients, in fp32 or wider. This error
// comes from numbers that every kernel for tensor cores rounds to 16 bits before: the probabilities P, the gradients of
// scores dS, and y. The backward reads the rounded y in delta = sum(grad_y * y), which is subtracted from all dP of a
// row. So where dS cancels, as in rows with one or two keys, the gradient vanishes and the error of delta does not. The
// rounding of a result itself is not counted.
//
// Each rounding is independent of the others and has the standard deviation `roundoff` / sqrt(3) of its number, which
// is that of numbers just above a power of two. `roundoff` is unit_roundoff() of the kernel's type.
std::vector<Tensor> attention_variances(const Tensor& qkv, const AttentionOp::Shape& shape, const Tensor& grad_y,
                                        double roundoff, int64_t elements);

}  // namespace strata::kernels
