// SPDX-License-Identifier: MIT
// Checks the shapes of a trace, which plans and benches measure, against those of small models by hand.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "kernels/adamw/adamw_shape.h"
#include "kernels/neighbor_aggregate/neighbor_aggregate_shape.h"
#include "trainer/config/load_config.h"
#include "trainer/levels/kernel_plan.h"
#include "trainer/prediction/trace_step.h"
#include "trainer/tasks/declared_model.h"

namespace strata::trainer {
namespace {

TrainerConfig config_of(const std::string& model, const std::string& data, const std::vector<std::string>& overrides) {
  const std::string text =
      "run: {folder: unused, ranks: 1, device: cpu}\nsteps: 1\nbatch: 2\nmicro_batch: 2\nmodel: {" + model +
      "}\ndata: {" + data + "}\noptimizer: {type: adamw, learning_rate: 1e-2}\nschedule: {type: constant}\n";
  return parse_trainer_config("test.yaml", text, overrides).config;
}

TrainerConfig gpt2(const std::vector<std::string>& overrides = {}) {
  return config_of("type: transformer, family: gpt2, layers: 2, width: 8, heads: 2, sequence: 4, vocabulary: 10",
                   "type: text, train: unused, validation: unused", overrides);
}

TrainerConfig graph(const std::string& ranks) {
  return config_of(
      "type: graph_network, layers: 3, width: 12, features: 16, classes: 5, convolution: sage, projection: sparse",
      "type: synthetic_graph, nodes: 60, edges: 400", {"batch=1", "micro_batch=1", "run.ranks=" + ranks});
}

// Returns "2 linear 8x8->24 bias" for two calls.
std::vector<std::string> texts(const TrainerConfig& config) {
  std::vector<std::string> all;
  for (const UsedShape& used : used_shapes(config, at::kCPU)) {
    all.push_back(std::to_string(used.calls) + " " + std::string(used.shape.op()) + " " + used.shape.text());
  }
  return all;
}

// Each parameter takes a multiple of 64 elements. With weight decay: the embeddings of 10 words and of 4 positions; in
// each of two layers qkv, projection, up and down. Without: the last norm; in each layer two norms and four biases.
constexpr int64_t kAll = (128 + 64 + 2 * 64) + 2 * ((192 + 64 + 256 + 256) + (4 * 64 + 4 * 64));

const std::vector<std::string> kUpdates = {"1 adamw 192", "1 adamw 128", "2 adamw 768", "2 adamw 512",
                                           "1 sum_of_squares " + std::to_string(kAll)};

std::vector<std::string> with_updates(std::vector<std::string> forward) {
  forward.insert(forward.end(), kUpdates.begin(), kUpdates.end());
  return forward;
}

const std::vector<std::string> kTwoBlocks = {"1 embedding 8x8 of 10",
                                             "1 embedding 4x8 of 4",
                                             "1 layer_norm 8x8 bias",
                                             "2 linear 8x8->24 bias",
                                             "2 attention 2x4 positions, 2 heads of 4, causal",
                                             "2 linear 8x8->8 bias",
                                             "4 add_layer_norm 8x8 bias",
                                             "2 linear 8x8->32 gelu_tanh bias",
                                             "2 linear 8x32->8 bias"};

TEST(UsedShapes, AreOfTheForwardOfAMicroBatchAndOfAnUpdate) {
  std::vector<std::string> expected = kTwoBlocks;
  expected.insert(expected.end(), {"1 linear 8x8->10", "1 cross_entropy 8x10"});
  EXPECT_EQ(texts(gpt2()), with_updates(expected));
  // Neither recomputation nor more micro-batches add calls.
  EXPECT_EQ(texts(gpt2({"gradient_checkpointing=full", "batch=8"})), with_updates(expected));
}

// The first call is that of layer 0.
TEST(UsedShapes, HaveThePatternOfEachLayer) {
  std::vector<std::string> patterns;
  for (const std::string& text : texts(gpt2({"model.layers=5", "layers=[{only: 0-4 step 2, attention: window(2)}]"}))) {
    if (text.find(" attention ") != std::string::npos) patterns.push_back(text);
  }
  const std::string sizes = " attention 2x4 positions, 2 heads of 4, ";
  EXPECT_EQ(patterns, (std::vector<std::string>{"3" + sizes + "window(2)", "2" + sizes + "causal"}));
}

TEST(UsedShapes, HaveTheTermsOfScores) {
  std::vector<std::string> expected = kTwoBlocks;
  expected.at(4) += ", softcap 30, sinks";
  std::vector<std::string> blocks = texts(gpt2({"model.softcap=30", "model.sinks=true"}));
  blocks.resize(expected.size());
  EXPECT_EQ(blocks, expected);
}

// On GPUs the rows of many classes are filled up to a multiple of 64.
TEST(UsedShapes, RowsOfLogitsAreWholeOnGpus) {
  std::set<std::string> on_gpu;
  for (const UsedShape& used : used_shapes(gpt2({"model.vocabulary=5003"}), at::kCUDA)) {
    on_gpu.insert(std::string(used.shape.op()) + " " + used.shape.text());
  }
  EXPECT_TRUE(on_gpu.contains("linear 8x8->5056"));
  EXPECT_TRUE(on_gpu.contains("cross_entropy 8x5056"));
}

TEST(UsedShapes, HeadAndLossMayBeOneOp) {
  std::vector<std::string> expected = kTwoBlocks;
  expected.emplace_back("1 linear_cross_entropy 8x8->10");
  EXPECT_EQ(texts(gpt2({"kernels.linear_cross_entropy=aten"})), with_updates(expected));
}

TEST(UsedShapes, CoverBothWaysToComputeHeadAndLoss) {
  const auto losses = [](const TrainerConfig& config) {
    std::vector<std::string> ops;
    for (const std::vector<UsedShape>& way : shapes_by_head(config, at::kCPU)) {
      for (const UsedShape& used : way) {
        if (used.shape.op().ends_with("cross_entropy")) ops.emplace_back(used.shape.op());
      }
    }
    return ops;
  };
  const std::vector<std::string> both = {"cross_entropy", "linear_cross_entropy"};
  EXPECT_EQ(losses(gpt2()), both);
  EXPECT_EQ(losses(gpt2({"kernels.linear_cross_entropy=aten"})), both);
  EXPECT_EQ(losses(gpt2({"kernels={modules: [{only: head, linear: torchscript}]}"})), std::vector{both[0]});
  EXPECT_EQ(losses(graph("1")), std::vector{both[0]});
}

TEST(UsedShapes, HaveTheDtypesOfTheirCalls) {
  const TrainerConfig config = gpt2({"precision={compute: bfloat16, modules: [{only: root, compute: float32}]}"});
  std::map<std::string, std::set<at::ScalarType>> dtypes;
  for (const UsedShape& used : used_shapes(config, at::kCPU)) {
    dtypes[std::string(used.shape.op()) + " " + used.shape.text()] = used.dtypes;
  }
  const std::set<at::ScalarType> wide = {at::kFloat}, narrow = {at::kBFloat16}, both = {at::kFloat, at::kBFloat16};
  EXPECT_EQ(dtypes["embedding 8x8 of 10"], wide);
  EXPECT_EQ(dtypes["linear 8x8->24 bias"], narrow);
  EXPECT_EQ(dtypes["add_layer_norm 8x8 bias"], both) << "the last norm belongs to the root";
  EXPECT_EQ(dtypes["linear 8x8->10"], wide);
  EXPECT_EQ(dtypes["adamw 768"], wide) << "gradients are reduced in fp32";
}

TEST(UsedShapes, OfUpdatesAreShards) {
  const TrainerConfig config = gpt2({"run.ranks=4", "batch=8", "sharding.strategy=hybrid", "sharding.shard_ranks=2"});
  int64_t elements = 0;
  for (const UsedShape& used : used_shapes(config, at::kCPU)) {
    const auto* updates = used.shape.as<kernels::AdamwShape>();
    if (updates) elements += updates->elements * used.calls;
  }
  EXPECT_GE(elements, kAll / 2);
  EXPECT_LE(elements, kAll / 2 + 3 * 64) << "a shard is padded";
}

TEST(UsedShapes, HaveTheSizesOfTheGraph) {
  std::vector<std::string> sums;
  for (const UsedShape& used : used_shapes(graph("1"), at::kCPU)) {
    if (used.shape.op() == "neighbor_aggregate") sums.push_back(used.shape.text());
  }
  ASSERT_EQ(sums.size(), 3u);
  EXPECT_TRUE(sums[0].starts_with("60x12 from 16, ")) << sums[0];
  EXPECT_TRUE(sums[0].ends_with(" weighted edges sum")) << sums[0];
  EXPECT_TRUE(sums[1].starts_with("60x12, ")) << sums[1];
  EXPECT_TRUE(sums[2].starts_with("60x5, ")) << sums[2];
}

// Each layer exchanges the halo once, and its backward adds the gradients that come back to those of own nodes.
TEST(UsedShapes, OfAPartOfAGraphIncludeTheSumsOfReturnedGradients) {
  int64_t calls = 0;
  for (const UsedShape& used : used_shapes(graph("2"), at::kCPU)) {
    const auto* sum = used.shape.as<kernels::NeighborAggregateShape>();
    if (sum == nullptr || sum->weighted || sum->reduction != kernels::Reduction::sum) continue;
    EXPECT_LT(sum->targets, 60);
    EXPECT_GT(sum->edges, 0);
    EXPECT_EQ(sum->edges, sum->sources) << "a returned row is of one node";
    calls += used.calls;
  }
  EXPECT_EQ(calls, 3);
}

std::string version(const TrainerConfig& config) { return model_version(config, declared_model(config).modules); }

// A layer that is pruned instead of another one has the same shapes in another order.
std::multiset<std::string> in_any_order(const TrainerConfig& config) {
  const std::vector<std::string> all = texts(config);
  return {all.begin(), all.end()};
}

// A plan is asked for again exactly where sparsity changes a shape or how often it is used.
TEST(UsedShapes, UnderSparsityAreThoseOfOnePlanIfTheyAreEqual) {
  const std::vector<std::string> wishes = {"{pattern: none}",
                                           "{pattern: 2:4}",
                                           "{pattern: 2:4, decay: 0}",
                                           "{pattern: 2:4, only: mlp}",
                                           "{pattern: 2:4, only: attention}",
                                           "{pattern: 2:4, only: blocks.0.mlp}",
                                           "{pattern: 2:4, only: blocks.1.mlp, from_step: 1, decay: 0.5}"};
  for (const std::string family : {"gpt2", "llama"}) {
    std::set<std::string> versions;
    for (const std::string& first : wishes) {
      for (const std::string& second : wishes) {
        const TrainerConfig a = gpt2({"model.family=" + family, "model.feed_forward=32", "sparsity=" + first});
        const TrainerConfig b = gpt2({"model.family=" + family, "model.feed_forward=32", "sparsity=" + second});
        EXPECT_EQ(version(a) == version(b), in_any_order(a) == in_any_order(b)) << family << " " << first << second;
        versions.insert(version(a));
      }
    }
    // A Llama has no activation at the end of a product.
    EXPECT_EQ(versions.size(), family == "gpt2" ? 3u : 1u);
  }
}

}  // namespace
}  // namespace strata::trainer
