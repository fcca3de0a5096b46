// SPDX-License-Identifier: MIT
// The visible pairs of a pattern as a tensor, for levels that store all pairs.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/attention/pattern/program.h"

namespace strata::kernels {

// Returns the document of each position, [B, T]. The offsets are as in AttentionMask.
at::Tensor documents_of(const at::Tensor& document_offsets, int64_t batch, int64_t positions);

// The queries and keys of a mask. Both are counted from the start of a row.
struct MaskedRows {
  int64_t first_query, queries, keys;
};

// Returns a mask that is true for visible pairs: [1, 1, Q, T], or [B, 1, Q, T] if the program has documents. Only then
// `document_BT` is read. The mask is made by operators on the device, so that a CUDA graph can record it.
at::Tensor pattern_mask(const Program& program, const MaskedRows& rows, const at::Tensor& document_BT,
                        at::Device device);

// The same for any positions, int64, which broadcast. All of them are in one document: for_one_document().
at::Tensor pairs_mask(const Program& program, const at::Tensor& query, const at::Tensor& key);

}  // namespace strata::kernels
