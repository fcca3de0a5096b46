// SPDX-License-Identifier: MIT
// Checks ops that index flat memory on more elements than 31 bits can count: every level on the GPU against the
// formula, in parts. Needs 110 GB of GPU memory.
#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "kernels/activation/activation_shape.h"
#include "kernels/adamw/adamw_shape.h"
#include "kernels/attention/attention_shape.h"
#include "kernels/cross_entropy/cross_entropy_shape.h"
#include "kernels/dropout/dropout_shape.h"
#include "kernels/embedding/embedding_shape.h"
#include "kernels/layer_norm/layer_norm_shape.h"
#include "kernels/level_matrix.h"
#include "kernels/linear/linear_shape.h"
#include "kernels/linear_cross_entropy/linear_cross_entropy_shape.h"
#include "kernels/neighbor_aggregate/neighbor_aggregate_shape.h"
#include "kernels/op_proofs.h"
#include "kernels/proof/workload_check.h"
#include "kernels/rms_norm/rms_norm_shape.h"
#include "kernels/rms_norm_rotary/rms_norm_rotary_shape.h"
#include "kernels/rotary/rotary_shape.h"
#include "kernels/sum_of_squares/sum_of_squares_shape.h"
#include "kernels/swiglu/swiglu_shape.h"

namespace strata::kernels {
namespace {

constexpr int64_t kRows = (int64_t{1} << 20) + 1, kWidth = 2048;  // 2^31 + 2048 elements
static_assert(kRows * kWidth > int64_t{1} << 31);
// Sequences of 1024 positions with 16 heads of 64: queries, keys and values have 2.5 % more than 2^31 elements.
constexpr int64_t kSequences = 700;
static_assert(kSequences * 1024 * 3 * 16 * 64 > int64_t{1} << 31);

// A graph with kRows targets. The formula holds all rows of the sources in fp64, so these are few. The backward reads
// rows of targets as neighbors of the sources.
constexpr int64_t kSources = 100'000, kEdges = 1'500'000;

NeighborAggregateShape graph_of(Reduction reduction, bool weighted) {
  return {.targets = kRows,
          .sources = kSources,
          .width = kWidth,
          .edges = kEdges,
          .reduction = reduction,
          .weighted = weighted};
}

std::vector<OpShape> huge_shapes() {
  return {
      ActivationShape{.rows = kRows, .width = kWidth, .kind = Activation::gelu_tanh},
      SwigluShape{.rows = kRows, .width = kWidth / 2},
      DropoutShape{.rows = kRows, .width = kWidth},
      RmsNormShape{.rows = kRows, .width = kWidth},
      RmsNormShape{.rows = kRows, .width = kWidth, .adds = true},
      LayerNormShape{.rows = kRows, .width = kWidth, .bias = true},
      LayerNormShape{.rows = kRows, .width = kWidth, .bias = true, .adds = true},
      LinearShape{.rows = kRows, .inputs = kWidth, .outputs = 64, .activation = Activation::gelu_tanh, .bias = true},
      LinearShape{.rows = kRows, .inputs = 64, .outputs = kWidth, .bias = true},
      RotaryShape{.batch = kSequences, .positions = 1024, .heads = 16, .key_value_heads = 16, .head_width = 64},
      RmsNormRotaryShape{.batch = kSequences, .positions = 1024, .heads = 16, .key_value_heads = 16, .head_width = 64},
      AttentionShape{.batch = kSequences, .positions = 1024, .heads = 16, .key_value_heads = 16, .head_width = 64},
      EmbeddingShape{.rows = kRows, .width = kWidth, .vocabulary = 1000},
      CrossEntropyShape{.rows = 42'700, .classes = 50'304},
      // Inputs of more elements, and logits of more elements, which are computed in three chunks.
      LinearCrossEntropyShape{.rows = kRows, .inputs = kWidth, .classes = 512},
      LinearCrossEntropyShape{.rows = 42'700, .inputs = 64, .classes = 50'304},
      graph_of(Reduction::sum, /*weighted=*/false),
      graph_of(Reduction::mean, /*weighted=*/true),
      graph_of(Reduction::max, /*weighted=*/false),
      NeighborAttentionShape{
          .targets = kRows, .sources = kSources, .heads = 16, .head_width = kWidth / 16, .edges = kEdges},
      AdamwShape{.elements = kRows * kWidth},
      SumOfSquaresShape{.elements = kRows * kWidth},
  };
}

class HugeOnGpu : public testing::TestWithParam<OpShape> {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "not run: there is no GPU";
  }
  void TearDown() override {
    if (at::hasCUDA()) c10::cuda::CUDACachingAllocator::emptyCache();
  }
};

TEST_P(HugeOnGpu, LevelsAgree) {
  const Workload workload = make_workload(GetParam(), at::kBFloat16, at::Device(at::kCUDA, 0));
  for (const LevelRow& row : level_matrix()) {
    if (row.op != GetParam().op() || row.device != c10::kCUDA || !row.forward) continue;
    // The scores of all sequences at once do not fit.
    if (row.op == "attention" && row.level == Level::torchscript) continue;
    const Verdict found = verdict(workload, row.level);
    EXPECT_TRUE(found.agreed) << name(row.level) << ": " << found.words;
    std::printf("%s %s %s: error %.3f of what is allowed\n", std::string(GetParam().op()).c_str(),
                GetParam().text().c_str(), std::string(name(row.level)).c_str(), found.share);
    c10::cuda::CUDACachingAllocator::emptyCache();
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, HugeOnGpu, testing::ValuesIn(huge_shapes()), [](const auto& info) {
  return std::string(info.param.op()) + "_" + std::to_string(info.index);
});

}  // namespace
}  // namespace strata::kernels
