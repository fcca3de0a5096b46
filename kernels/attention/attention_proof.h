// SPDX-License-Identifier: MIT
// attention_case: a call of attention with random inputs, as the proof has them.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "kernels/attention/attention_shape.h"
#include "kernels/proof/op_case.h"

namespace strata::kernels {

// The leaves are qkv, or queries and key_value if queries are a part of each row, and then the sinks. Offsets of
// documents are on the CPU, as AttentionMask has them: undefined for a pattern without documents.
OpCase attention_case(const std::string& name, const AttentionShape& shape, const Tensor& document_offsets);

}  // namespace strata::kernels
