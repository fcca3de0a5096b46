// SPDX-License-Identifier: MIT
// The lists of level cuda of attention, and its calls for tensors without values, without a GPU.
#include "kernels/attention/tiles/step_lists.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <vector>

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

TEST(StepLists, DescendAndSayWhichTilesAreFull) {
  const StepsOfTiles prefix = step_lists(parse_pattern("prefix(70)"), TiledRow::whole_row(150), {64, 64}, at::kCPU);
  EXPECT_EQ(prefix.tiles, 3);
  EXPECT_EQ(numbers(prefix.rows), (Numbers{0, 0, 2, 0, 1, 2, 4, 0, 2, 4, 6, 0}));
  EXPECT_EQ(numbers(prefix.steps), (Numbers{2, 1, 2, 1, 2, 0}));
  const StepsOfTiles causal = step_lists(parse_pattern("causal"), {128, 128, 256}, {64, 64}, at::kCPU);
  EXPECT_EQ(numbers(causal.rows), (Numbers{1, 0, 4, 0, 0, 4, 7, 0}));
  EXPECT_EQ(numbers(causal.steps), (Numbers{6, 5, 3, 1, 4, 3, 1}));
}

TEST(CudaAttention, TracesEveryPatternWithHeadsOf64And128) {
  const Tracing tracing(c10::kCUDA);
  const at::TensorOptions meta(at::kMeta);
  for (const int64_t width : {64, 128}) {
    for (const char* text :
         {"full", "causal & window(40)", "window(900)", "causal & documents", "causal | prefix(70)",
          "causal & (window(30) | global(5))", "blocks(0.5, 3)", "dilated(9, 3)", "dilated(9, 3) | documents"}) {
      SCOPED_TRACE(text);
      AttentionMask mask = {parse_pattern(text)};
      if (has_word(mask.pattern, Pattern::Kind::documents)) {
        mask.document_offsets = at::empty({7}, meta.dtype(at::kInt));
      }
      const Tensor sinks = at::empty({4}, meta.dtype(at::kHalf)).requires_grad_();
      const Tensor qkv = at::empty({2, 150, 8 * width}, meta.dtype(at::kHalf)).requires_grad_();
      Tensor y = attention(qkv, 4, 2, mask, {.sinks = sinks}, Level::cuda);
      torch::autograd::backward({y}, {at::empty(y.sizes(), y.options())});
      EXPECT_EQ(qkv.grad().sizes(), qkv.sizes());
      EXPECT_EQ(sinks.grad().sizes(), sinks.sizes());
      const Tensor query = at::empty({2, 70, 4 * width}, meta.dtype(at::kHalf)).requires_grad_();
      const Tensor key_value = at::empty({2, 150, 4 * width}, meta.dtype(at::kHalf)).requires_grad_();
      y = attention_of_part(query, {key_value, 80}, 4, 2, mask, {.sinks = sinks}, Level::cuda);
      torch::autograd::backward({y}, {at::empty(y.sizes(), y.options())});
      EXPECT_EQ(query.grad().sizes(), query.sizes());
      EXPECT_EQ(key_value.grad().sizes(), key_value.sizes());
    }
  }
}

}  // namespace
}  // namespace strata::kernels
