// SPDX-License-Identifier: MIT
#include "kernels/attention/tiles/block_mask.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/where.h>

#include <optional>
#include <utility>

#include "kernels/attention/device_constants.h"
#include "kernels/attention/pattern/program.h"
#include "kernels/attention/pattern_mask.h"

namespace strata::kernels {
namespace {

using at::Tensor;

constexpr int32_t kPartial = 2;  // any number of a mask that is neither empty nor full
constexpr size_t kAligned = 4;   // numbers: packages read 16 bytes at a time

void append(std::vector<int32_t>& packed, const std::vector<int32_t>& part) {
  packed.insert(packed.end(), part.begin(), part.end());
  packed.resize((packed.size() + kAligned - 1) / kAligned * kAligned);
}

// Reads the parts that append() wrote, in the same order.
class Parts {
 public:
  explicit Parts(Tensor packed) : packed_(std::move(packed)) {}

  Tensor next(at::IntArrayRef sizes) {
    const int64_t numbers = c10::multiply_integers(sizes);
    const Tensor part = packed_.narrow(0, begin_, numbers).view(sizes);
    begin_ += (numbers + int64_t{kAligned} - 1) / int64_t{kAligned} * int64_t{kAligned};
    return part;
  }
  Tensor rest() const { return packed_.narrow(0, begin_, packed_.size(0) - begin_); }

 private:
  Tensor packed_;
  int64_t begin_ = 0;
};

std::vector<int32_t> numbers_of(const Tensor& tensor) {
  const auto* first = tensor.const_data_ptr<int32_t>();
  return {first, first + tensor.numel()};
}

// Masks of bands are not read: all partial tiles get one number.
std::vector<int32_t> without_masks(std::vector<int32_t> mask_of_tile) {
  for (int32_t& number : mask_of_tile) number = std::min(number, kPartial);
  return mask_of_tile;
}

// Returns the part that does not depend on documents: the lists, or with documents the masks of pairs of one and of two
// documents; then what the mask reads.
std::vector<int32_t> packed_mask(const Program& program, const std::optional<Band>& band, int64_t positions) {
  std::vector<int32_t> packed;
  TileMasks masks(positions);
  const auto add = [&](const Program& pair_program) {
    return band ? without_masks(masks.add(pair_program)) : masks.add(pair_program);
  };
  if (program.has(Operation::documents)) {
    append(packed, add(with_documents(program, /*same=*/true)));
    append(packed, add(with_documents(program, /*same=*/false)));
  } else {
    std::vector<int32_t> mask_of_tile = add(program);
    const Tensor tiles = at::from_blob(mask_of_tile.data(), {1, masks.tiles(), masks.tiles()}, at::kInt);
    for (const Tensor& list : block_lists(tiles)) append(packed, numbers_of(list));
    if (!band) append(packed, mask_of_tile);
  }
  if (band) {
    append(packed, {band->lowest, band->highest, static_cast<int32_t>(positions)});
  } else {
    append(packed, masks.words());
  }
  return packed;
}

// The document of each position, [B, tiles * 128]. Positions after the last one are of its document.
Tensor documents_of_tiles(const Tensor& document_offsets, int64_t batch, int64_t positions) {
  const Tensor document_BT = documents_of(document_offsets, batch, positions);
  const int64_t behind = (kMaskTile - positions % kMaskTile) % kMaskTile;
  if (behind == 0) return document_BT;
  return at::cat({document_BT, document_BT.narrow(1, positions - 1, 1).expand({batch, behind})}, 1);
}

// Lists of the same sizes as those that are made from tensors with values.
BlockLists traced_lists(int64_t rows, int64_t tiles, const at::TensorOptions& options) {
  BlockLists lists;
  for (int i = 0; i < 4; ++i) {
    lists.push_back(at::empty({rows, tiles}, options));
    lists.push_back(at::empty({rows, tiles, tiles}, options));
  }
  return lists;
}

}  // namespace

BlockLists block_lists(const Tensor& mask_of_tile) {
  BlockLists lists;
  for (const Tensor& numbers : {mask_of_tile, mask_of_tile.transpose(1, 2)}) {
    for (const Tensor& chosen : {numbers.gt(TileMasks::kFull), numbers.eq(TileMasks::kFull)}) {
      lists.push_back(chosen.sum(-1, /*keepdim=*/false, at::kInt));
      lists.push_back(at::argsort(chosen.to(at::kByte), /*stable=*/true, /*dim=*/-1, /*descending=*/true)
                          .to(at::kInt, /*non_blocking=*/false, /*copy=*/false, at::MemoryFormat::Contiguous));
    }
  }
  return lists;
}

Tensor mask_of_tiles(const Tensor& same_document, const Tensor& two_documents, const Tensor& document_BT) {
  const Tensor tile_documents = document_BT.unflatten(1, {-1, kMaskTile});
  const Tensor first = tile_documents.select(2, 0), last = tile_documents.select(2, kMaskTile - 1);
  const Tensor first_query = first.unsqueeze(2), last_query = last.unsqueeze(2);
  const Tensor first_key = first.unsqueeze(1), last_key = last.unsqueeze(1);
  const Tensor is_one = first_query.eq(last_key) & first_key.eq(last_query);
  const Tensor shares_one = first_query.le(last_key) & first_key.le(last_query);
  // Some pairs of such a tile are of one document and some of two.
  const Tensor both = at::where(same_document.eq(two_documents) & same_document.le(TileMasks::kFull), same_document,
                                at::full_like(same_document, kPartial));
  return at::where(is_one, same_document, at::where(shares_one, both, two_documents));
}

BlockMask block_mask(const Pattern& pattern, int64_t batch, int64_t positions, const Tensor& document_offsets,
                     at::Device device) {
  const Program program = compile_program(pattern);
  const std::optional<Band> band = band_of(program);
  const bool documents = program.has(Operation::documents);
  const int64_t tiles = (positions + kMaskTile - 1) / kMaskTile;
  Parts parts(
      device_constants("the block mask of " + to_text(pattern) + " of " + std::to_string(positions) + " positions",
                       device, [&] { return packed_mask(program, band, positions); }));
  BlockMask result = {std::string(band ? "band" : "bits") + (documents ? "_documents" : ""), {}, {}};
  Tensor document_BT;
  if (documents) {
    const Tensor same = parts.next({tiles, tiles}), two = parts.next({tiles, tiles});
    document_BT = documents_of_tiles(document_offsets, batch, positions);
    result.lists = device.is_meta() ? traced_lists(batch, tiles, document_BT.options())
                                    : block_lists(mask_of_tiles(same, two, document_BT));
    if (!band) result.tensors = {same, two};
  } else {
    for (int i = 0; i < 4; ++i) {
      result.lists.push_back(parts.next({1, tiles}));
      result.lists.push_back(parts.next({1, tiles, tiles}));
    }
    if (!band) result.tensors = {parts.next({tiles, tiles})};
  }
  result.tensors.push_back(band ? parts.next({3}) : parts.rest().view({-1, kMaskTile, kMaskTile / 32}));
  if (documents) result.tensors.push_back(document_BT.view({batch, tiles, kMaskTile}));
  return result;
}

}  // namespace strata::kernels
