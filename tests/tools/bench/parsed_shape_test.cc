// SPDX-License-Identifier: MIT
// The texts of shapes are read as they are written, and nothing else is read.
#include "tools/bench/kernels/parsed_shape.h"

#include <gtest/gtest.h>

#include <set>

#include "kernels/attention/attention_shape.h"
#include "kernels/op_proofs.h"

namespace strata::tools {
namespace {

const std::set<std::string_view> kWithoutSizes = {"adamw", "sum_of_squares", "neighbor_aggregate",
                                                  "neighbor_attention"};

bool is_read(const kernels::OpShape& shape) {
  const auto* attention = shape.as<kernels::AttentionShape>();
  return !kWithoutSizes.contains(shape.op()) &&
         (attention == nullptr || (!attention->deterministic && !attention->terms.any() && attention->documents == 1 &&
                                   attention->queries == 0));
}

TEST(ParsedShape, ReadsTheTextsOfAllProofs) {
  std::set<std::string_view> ops;
  for (const kernels::OpProof& proof : kernels::op_proofs()) {
    for (const auto* shapes : {&proof.small_shapes, &proof.cpu_shapes, &proof.gpu_shapes}) {
      for (const kernels::OpShape& shape : *shapes) {
        const auto parsed = parsed_shape(shape.op(), shape.text());
        ASSERT_EQ(parsed.has_value(), is_read(shape)) << shape.op() << " " << shape.text();
        if (!parsed) continue;
        EXPECT_TRUE(*parsed == shape) << shape.text();
        ops.insert(parsed->op());
      }
    }
  }
  EXPECT_TRUE(ops.contains("attention") && ops.contains("linear") && ops.contains("rotary"));
}

TEST(ParsedShape, ReadsOtherSizes) {
  EXPECT_EQ(parsed_shape("linear", "7x9->11 gelu bias")->forward_work(4).flops, 2 * 7 * 9 * 11);
  EXPECT_EQ(parsed_shape("attention", "2x64 positions, 8/2 heads of 16, causal & window(5)")->op(), "attention");
  EXPECT_EQ(parsed_shape("add_layer_norm", "5x6 bias")->op(), "add_layer_norm");
  EXPECT_TRUE(parsed_shape("linear", "7x9->1143771333935364"));  // 2^56 / 63
}

TEST(ParsedShape, ReadsNothingElse) {
  for (const char* text : {"", "x", "7x9", "7x9->", "07x9->11", "7x9->11 silu", "7x9->11 bias gelu", " 7x9->11",
                           "7x9->11 ", "7x9->0", "7x9->1143771333935365", "7x9->99999999999999999999", "-7x9->11",
                           "7x9->11x13", "2x64 positions, 8 heads of 16"})
    EXPECT_FALSE(parsed_shape("linear", text)) << text;
  EXPECT_FALSE(parsed_shape("attention", "2x64 positions, 8 heads of 16"));
  EXPECT_FALSE(parsed_shape("attention", "2x64 positions, 8 heads of 16, sideways"));
  EXPECT_FALSE(parsed_shape("activation", "8x8 none"));
  EXPECT_FALSE(parsed_shape("nothing", "8x8"));
}

}  // namespace
}  // namespace strata::tools
