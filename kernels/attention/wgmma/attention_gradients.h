// SPDX-License-Identifier: MIT
// The backward of attention at level cuda by the kernels of backward.h, for heads of 64 and 128 in 16 bits.
#pragma once

#include "kernels/attention/attention.h"

namespace strata::kernels {

// `logsumexp_BHQ` has any strides. Terms other than sinks are not read. All gradients are sums in a fixed order.
AttentionOp::Gradient attention_gradients(const Tensor& grad_y, const Tensor& qkv, const Tensor& y,
                                          const Tensor& logsumexp_BHQ, const AttentionOp::Arguments& arguments);

}  // namespace strata::kernels
