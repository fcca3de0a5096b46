// SPDX-License-Identifier: MIT
// The lists and masks of level aot_inductor, without a GPU: together they are the visible pairs.
#include "kernels/attention/tiles/block_mask.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/attention/pattern/parse_pattern.h"
#include "kernels/attention/pattern/program.h"
#include "kernels/attention/pattern/visible.h"
#include "tests/kernels/attention/random_rows.h"
#include "tests/kernels/pattern/random_pattern.h"

namespace strata::kernels {
namespace {

using at::Tensor;

int64_t number(const Tensor& tensor, at::IntArrayRef place) {
  const int32_t* here = tensor.const_data_ptr<int32_t>();
  for (size_t i = 0; i < place.size(); ++i) here += place[i] * tensor.stride(static_cast<int64_t>(i));
  return *here;
}

enum class State : char { none = 'n', partial = 'p', full = 'f' };

// The states of the tiles of one row by queries and keys, from four of the lists. `problem` says what is wrong with
// them.
std::vector<State> states(const BlockLists& lists, bool by_key, int64_t row, int64_t tiles, std::string& problem) {
  std::vector<State> result(static_cast<size_t>(tiles * tiles), State::none);
  for (const bool full : {false, true}) {
    const size_t first = (by_key ? 4 : 0) + (full ? 2 : 0);
    const int64_t r = lists[first].size(0) == 1 ? 0 : row;
    for (int64_t own = 0; own < tiles; ++own) {
      for (int64_t i = 0; i < number(lists[first], {r, own}); ++i) {
        const int64_t other = number(lists[first + 1], {r, own, i});
        if (i > 0 && number(lists[first + 1], {r, own, i - 1}) >= other) problem = "indices do not ascend";
        State& state = result[static_cast<size_t>(by_key ? other * tiles + own : own * tiles + other)];
        if (state != State::none) problem = "a tile is in two lists";
        state = full ? State::full : State::partial;
      }
    }
  }
  return result;
}

// Returns the value that a partial tile computes for one pair: attention_programs.py.
bool mask_sees(const BlockMask& mask, int64_t row, int64_t query, int64_t key) {
  const bool documents = mask.name.ends_with("_documents");
  const auto document = [&](int64_t position) {
    return number(mask.tensors.back(), {row, position / kMaskTile, position % kMaskTile});
  };
  const bool same = !documents || document(query) == document(key);
  if (mask.name.starts_with("band")) {
    const Tensor& band = mask.tensors[0];
    return same && query - key >= number(band, {0}) && query - key <= number(band, {1}) && key < number(band, {2});
  }
  const int64_t tile = number(mask.tensors[same ? 0 : 1], {query / kMaskTile, key / kMaskTile});
  const auto word =
      static_cast<uint32_t>(number(mask.tensors[documents ? 2 : 1], {tile, query % kMaskTile, key % kMaskTile / 32}));
  return (word >> (key % 32) & 1) != 0;
}

std::string fault(const Pattern& pattern, int64_t positions, const Documents& documents) {
  const auto batch = static_cast<int64_t>(documents.row_ids.size());
  const bool has_documents = has_word(pattern, Pattern::Kind::documents);
  const BlockMask mask = block_mask(pattern, batch, positions, has_documents ? documents.offsets : Tensor(), at::kCPU);
  const int64_t tiles = (positions + kMaskTile - 1) / kMaskTile;
  for (int64_t row = 0; row < batch; ++row) {
    std::string problem;
    const std::vector<State> found = states(mask.lists, /*by_key=*/false, row, tiles, problem);
    if (found != states(mask.lists, /*by_key=*/true, row, tiles, problem)) problem = "lists by key are others";
    if (!problem.empty()) return problem;
    for (int64_t query = 0; query < positions; ++query) {
      for (int64_t key = 0; key < tiles * kMaskTile; ++key) {
        const State state = found[static_cast<size_t>(query / kMaskTile * tiles + key / kMaskTile)];
        const bool seen = key < positions && sees(pattern, query, key, documents.row_ids[static_cast<size_t>(row)]);
        const bool here = state == State::full || (state == State::partial && mask_sees(mask, row, query, key));
        if (here != seen) {
          return "row " + std::to_string(row) + ", query " + std::to_string(query) + ", key " + std::to_string(key);
        }
      }
    }
  }
  return "";
}

TEST(BlockMask, IsTheVisiblePairs) {
  Draws draws(6);
  int bands = 0;
  for (int i = 0; i < 24; ++i) {
    const int64_t positions = i < 4 ? 128 * (1 + i) : 1 + draws.below(400);
    const Pattern pattern = i % 3 == 0 ? within_documents(parse_pattern(i % 2 == 0 ? "causal" : "window(40)"))
                                       : random_pattern(draws, 1 + draws.below(4), positions);
    bands += band_of(compile_program(pattern)).has_value();
    ASSERT_EQ(fault(pattern, positions, random_rows(draws, 2, positions)), "")
        << to_text(pattern) << " of " << positions << " positions";
  }
  EXPECT_GE(bands, 8);
  EXPECT_LT(bands, 20);
}

// A tile that is wholly in one document and wholly visible needs no mask, and one of two documents is left out.
TEST(BlockMask, ListsFewTiles) {
  Tensor offsets = at::empty({3}, at::kInt);
  std::copy_n(std::vector<int32_t>{0, 256, 640}.begin(), 3, offsets.mutable_data_ptr<int32_t>());
  const BlockMask mask = block_mask(parse_pattern("causal & documents"), 1, 640, offsets, at::kCPU);
  EXPECT_EQ(mask.lists[0].sum().item<int64_t>(), 5);  // blocks of the diagonal
  EXPECT_EQ(mask.lists[2].sum().item<int64_t>(), 4);  // below it
}

TEST(BlockMask, IsMadeOnceForEachPatternAndLength) {
  const auto made = [](const char* pattern, int64_t positions) {
    return block_mask(parse_pattern(pattern), 2, positions, {}, at::kCPU).lists[1].const_data_ptr();
  };
  EXPECT_EQ(made("causal", 300), made("causal", 300));
  EXPECT_NE(made("causal", 300), made("causal", 301));
  EXPECT_NE(made("causal", 300), made("full", 300));
}

// Packages read 16 bytes at a time, and what is not aligned is copied in each call.
TEST(BlockMask, HasAlignedTensors) {
  for (const char* text : {"causal", "causal | prefix(9)"}) {
    const BlockMask mask = block_mask(parse_pattern(text), 1, 384, {}, at::kCPU);
    for (const std::vector<Tensor>& tensors : {mask.lists, mask.tensors}) {
      for (const Tensor& tensor : tensors) {
        EXPECT_TRUE(tensor.is_contiguous());
        EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % 16, 0u);
      }
    }
  }
}

}  // namespace
}  // namespace strata::kernels
