// SPDX-License-Identifier: MIT
// BlockMask: the visible tiles and pairs of a pattern as level aot_inductor reads them, which is FlexAttention's block
// mask.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/attention/pattern/pattern.h"
#include "kernels/attention/pattern/tile_masks.h"

namespace strata::kernels {

// Lists of tiles of 128 x 128 positions, eight int32 tensors. For each tile of queries, how many tiles of keys are
// partial, [R, tiles], and which, [R, tiles, tiles]; then the same two for full tiles; then all four for each tile of
// keys. R is 1, or B with documents. Places after the number of a list hold the tiles that are not in it.
using BlockLists = std::vector<at::Tensor>;

// The lists of tiles whose masks have these numbers, [R, tiles, tiles]. Made by operators on the device of the numbers.
BlockLists block_lists(const at::Tensor& mask_of_tile);

// Returns [B, tiles, tiles]: TileMasks::kNone, TileMasks::kFull, or another number for tiles that are partial, from
// those of pairs of one document and of two different ones. document_BT has whole tiles of positions, and its ids do
// not descend.
at::Tensor mask_of_tiles(const at::Tensor& same_document, const at::Tensor& two_documents,
                         const at::Tensor& document_BT);

struct BlockMask {
  std::string name;  // name of the mask in attention_programs.py
  BlockLists lists;
  std::vector<at::Tensor> tensors;  // what the mask reads, as attention_programs.py lists it
};

// All but the documents is made once for each pattern and number of positions, and kept on the device. Document offsets
// are those of AttentionMask. For device meta the shapes are those of a GPU.
BlockMask block_mask(const Pattern& pattern, int64_t batch, int64_t positions, const at::Tensor& document_offsets,
                     at::Device device);

}  // namespace strata::kernels
