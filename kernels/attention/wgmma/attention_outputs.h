// SPDX-License-Identifier: MIT
// The forward of attention at level cuda by the kernels of forward.h, for heads of 64 and 128 in 16 bits.
#pragma once

#include "kernels/attention/attention.h"

namespace strata::kernels {

// logsumexp is [B, H, Q]. Terms other than sinks are not read. The same call has the same bits.
AttentionOp::Output attention_outputs(const Tensor& qkv, const AttentionOp::Arguments& arguments);

}  // namespace strata::kernels
