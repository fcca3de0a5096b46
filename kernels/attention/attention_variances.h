// SPDX-License-Identifier: MIT
// What 16-bit kernels may add to the error of attention. It is computed piece by piece, as in attention_pieces.h.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/attention/attention.h"

namespace strata::kernels {

// What the errors of kernels for tensor cores vary by, in fp32 or wider.
struct AttentionVariances {
  // Variances of error * y and of error^2, each summed over a row of a head of y: [B, Q, H].
  Tensor product_variance, square_variance;
  // Variances of the error of each element of the gradients that attention_in_pieces() returns.
  std::vector<Tensor> gradient_variances;
};

// These errors come from numbers that every such kernel rounds to 16 bits before: the probabilities P, the gradients of
// scores dS, and y. The backward reads the rounded y in delta = sum(grad_y * y), which is subtracted from all dP of a
// row. So where dS cancels, as in rows with one or two keys, the gradient vanishes and the error of delta does not. The
// rounding of a result itself is not counted.
//
// Each rounding is independent of the others. u is `roundoff`, unit_roundoff() of the kernel's type. In gradients each
// rounding has the standard deviation u / sqrt(3) of its number, which is that of numbers just above a power of two.
//
// In y it is the mean of all numbers. A row of y is the sum of P_j v_j over the keys j. A kernel has P_j (1 + d_j)
// instead of P_j. So the product of its error and y is the sum of d_j P_j (v_j . y). The variance of that is the
// variance of d, times the sum of (P_j (v_j . y))^2. A number m 2^k, with 1 <= m < 2, is rounded by at most u 2^k. All
// errors up to that are equally likely, so d has the variance u^2 / (3 m^2). P is an exponential, so all values of
// log2(m) are about equally likely. Then the mean of 1 / m^2 is 3 / (8 ln 2), and the variance of d is u^2 / (8 ln 2).
//
// The square of the error is the sum of d_j^2 P_j^2 |v_j|^2, and of products of two keys, which are left out: v of two
// keys have no common direction. Its variance is the variance of d^2, times the sum of P_j^4 |v_j|^4. The mean of d^4
// is u^4 / (5 m^4), and the mean of 1 / m^4 is 15 / (64 ln 2).
AttentionVariances attention_variances(const Tensor& qkv, const AttentionOp::Arguments& arguments, const Tensor& grad_y,
                                       double roundoff, int64_t elements);

}  // namespace strata::kernels
