// SPDX-License-Identifier: MIT
// The lists of tiles of level triton, without a GPU.
#include "kernels/attention/tiles/tile_lists.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <vector>

#include "base/errors.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/pattern/parse_pattern.h"
#include "kernels/runtime/traced.h"

namespace strata::kernels {
namespace {

using Numbers = std::vector<int32_t>;

Numbers numbers(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous();
  return {flat.const_data_ptr<int32_t>(), flat.const_data_ptr<int32_t>() + flat.numel()};
}

// The example of docs/attention.md.
TEST(TileLists, HaveARowForEachTileWithTheLongestFirst) {
  const Pattern pattern = parse_pattern("prefix(70)");
  const TileLists by_query = tile_lists(pattern, TiledRow::whole_row(150), {64, 64}, TileSide::query, at::kCPU);
  EXPECT_EQ(by_query.tiles, 3);
  EXPECT_EQ(numbers(by_query.rows), (Numbers{0, 0, 1, 2, 1, 2, 3, 4, 2, 4, 6, 6}));
  EXPECT_EQ(numbers(by_query.indices), (Numbers{1, 0, 1, 0, 0, 1}));
  const TileLists by_key = tile_lists(pattern, TiledRow::whole_row(150), {64, 64}, TileSide::key, at::kCPU);
  EXPECT_EQ(numbers(by_key.rows), (Numbers{0, 0, 1, 3, 1, 3, 6, 6, 2, 6, 6, 6}));
  EXPECT_EQ(numbers(by_key.indices), (Numbers{2, 0, 1, 0, 1, 2}));
  const TileLists causal =
      tile_lists(parse_pattern("causal"), TiledRow::whole_row(100), {32, 64}, TileSide::query, at::kCPU);
  EXPECT_EQ(numbers(causal.rows), (Numbers{2, 2, 3, 4, 3, 4, 6, 6, 0, 0, 1, 1, 1, 1, 2, 2}));
}

TEST(TileLists, AreCompiledOnce) {
  const auto list = [](const char* pattern, const TiledRow& row, TileSize size) {
    return tile_lists(parse_pattern(pattern), row, size, TileSide::query, at::kCPU).rows.const_data_ptr();
  };
  const void* first = list("causal & window(9)", {0, 300, 300}, {64, 64});
  EXPECT_EQ(list("causal & window(9)", {0, 300, 300}, {64, 64}), first);
  EXPECT_NE(list("causal & window(9)", {0, 301, 301}, {64, 64}), first);
  EXPECT_NE(list("causal & window(9)", {0, 300, 300}, {64, 32}), first);
  EXPECT_NE(list("causal & window(9)", {0, 150, 300}, {64, 64}), list("causal & window(9)", {150, 150, 300}, {64, 64}));
}

TEST(TileLists, AreRefusedEachTime) {
  for (int i = 0; i < 2; ++i) {
    EXPECT_THROW(
        tile_lists(parse_pattern("full"), TiledRow::whole_row(int64_t{1} << 22), {64, 64}, TileSide::key, at::kCPU),
        Error);
  }
}

// The second half of a row, which sees the keys before it.
TEST(TileLists, CountTilesOfQueriesFromTheFirstOne) {
  const TileLists lists = tile_lists(parse_pattern("causal"), {128, 128, 256}, {64, 64}, TileSide::query, at::kCPU);
  EXPECT_EQ(numbers(lists.rows), (Numbers{1, 3, 4, 7, 0, 0, 1, 3}));
  EXPECT_EQ(numbers(lists.indices), (Numbers{2, 0, 1, 3, 0, 1, 2}));
}

// A call that is traced chooses kernels as a GPU does, so sizes of tiles for which nothing was compiled are refused.
TEST(TritonAttention, HasKernelsForEveryTypeWidthAndPattern) {
  const Tracing tracing(c10::kCUDA);
  const at::TensorOptions meta(at::kMeta);
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const int64_t width : {1, 8, 10, 16, 32, 64, 80, 96, 100, 128, 192, 250, 256}) {
      for (const char* text :
           {"full", "causal", "causal & window(40)", "causal & documents", "causal | prefix(70)",
            "causal & (window(30) | global(5))", "blocks(0.5, 3)", "dilated(9, 3)", "dilated(9, 3) | documents"}) {
        AttentionMask mask = {parse_pattern(text)};
        if (has_word(mask.pattern, Pattern::Kind::documents))
          mask.document_offsets = at::empty({7}, meta.dtype(at::kInt));
        const Tensor sinks = at::empty({4}, meta.dtype(type)).requires_grad_();
        for (const AttentionTerms& terms : {AttentionTerms{}, AttentionTerms{.alibi = true, .sinks = sinks}}) {
          const Tensor qkv = at::empty({2, 150, 8 * width}, meta.dtype(type)).requires_grad_();
          try {
            const Tensor y = attention(qkv, 4, 2, mask, terms, Level::triton);
            torch::autograd::backward({y}, {at::empty(y.sizes(), y.options())});
          } catch (const c10::Error& error) {
            ADD_FAILURE() << type << ", heads of " << width << ", " << text << ", " << to_text(terms.kinds()) << ": "
                          << error.what_without_backtrace();
          }
          EXPECT_EQ(qkv.grad().sizes(), qkv.sizes());
          const Tensor query = at::empty({2, 70, 4 * width}, meta.dtype(type)).requires_grad_();
          const Tensor key_value = at::empty({2, 150, 4 * width}, meta.dtype(type)).requires_grad_();
          const Tensor y = attention_of_part(query, {key_value, 80}, 4, 2, mask, terms, Level::triton);
          torch::autograd::backward({y}, {at::empty(y.sizes(), y.options())});
          EXPECT_EQ(y.sizes(), query.sizes());
          EXPECT_EQ(query.grad().sizes(), query.sizes());
          EXPECT_EQ(key_value.grad().sizes(), key_value.sizes());
        }
        EXPECT_EQ(sinks.grad().sizes(), sinks.sizes());
      }
    }
  }
}

}  // namespace
}  // namespace strata::kernels
