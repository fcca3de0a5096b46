// SPDX-License-Identifier: MIT
// Checks the work of calls, computed by hand for a small GPT-2: 2 layers of width 8, 2 x 4 positions, vocabulary 10.
#include "trainer/profile/call_work.h"

#include <gtest/gtest.h>

#include "kernels/adamw/adamw_shape.h"
#include "trainer/levels/used_shapes.h"

namespace strata::trainer::profile {
namespace {

TrainerConfig small_config() {
  TrainerConfig config;
  config.micro_batch = 2;
  config.precision = {.compute = FloatType::bfloat16, .reduce = FloatType::float32};
  modules::TransformerConfig model;
  model.family = modules::Family::gpt2;
  model.layers = 2, model.width = 8, model.heads = 2, model.sequence = 4, model.vocabulary = 10;
  config.model.type = model;
  return config;
}

TEST(CallWork, OfLinearsIsTheirMean) {
  const WorkOfCalls work = work_of_calls(small_config(), {});
  // The products are 8 -> 24, 8 -> 8, 8 -> 32 and 32 -> 8, for 8 rows.
  const double flops = 2.0 * 8 * (8 * 24 + 8 * 8 + 8 * 32 + 32 * 8);
  EXPECT_DOUBLE_EQ(work({.layer = 1, .phase = "forward", .op = "linear", .level = "cuda"}, 4).flops, flops);
  EXPECT_DOUBLE_EQ(work({.layer = 0, .op = "linear", .backward = true}, 1).flops, 2 * flops / 4);
  EXPECT_DOUBLE_EQ(work({.layer = -1, .op = "linear"}, 1).flops, 2.0 * 8 * 8 * 10);
}

TEST(CallWork, OfHeadAndLossTogetherIsThatOfThreeProducts) {
  TrainerConfig config = small_config();
  config.kernels.levels.linear_cross_entropy = kernels::Level::cuda;
  const WorkOfCalls work = work_of_calls(config, {});
  EXPECT_DOUBLE_EQ(work({.layer = -1, .op = "linear_cross_entropy"}, 1).flops, 6.0 * 8 * 8 * 10);
  EXPECT_EQ(work({.layer = -1, .op = "linear"}, 1).flops, 0);
  EXPECT_EQ(work({.layer = -1, .op = "cross_entropy"}, 1).bytes, 0);
}

TEST(CallWork, OfOpsThatOnlyMoveBytes) {
  const WorkOfCalls work = work_of_calls(small_config(), {});
  const LeastWork norm = work({.layer = 1, .op = "add_layer_norm"}, 1);
  EXPECT_EQ(norm.flops, 0);
  EXPECT_GT(norm.bytes, 4 * 8 * 8 * 2);
  EXPECT_EQ(work({.layer = -1, .op = "layer_norm"}, 1).bytes, 0) << "the first norm is a layer's";
}

// Outside: embeddings of 10 words and 4 positions, and the last norm. In each of two layers: norms, qkv, projection, up
// and down.
constexpr double kOutside = 14 * 8 + 16, kLayer = 32 + 8 * 24 + 24 + 8 * 8 + 8 + 8 * 32 + 32 + 32 * 8 + 8;

// The whole state is updated once per step, in any number of calls. Master weights and moments take 24 bytes.
void expect_updates(const TrainerConfig& config, double adamw, double global_norm) {
  const WorkOfCalls work = work_of_calls(config, {});
  for (const int64_t calls : {1, 26}) {
    EXPECT_DOUBLE_EQ(work({.phase = "optimizer", .op = "adamw"}, calls).bytes, adamw);
    EXPECT_DOUBLE_EQ(work({.phase = "optimizer", .op = "global_norm"}, calls).bytes, global_norm);
  }
}

TEST(CallWork, OfUpdatesHasTheTypesOfTheGroups) {
  constexpr double all = kOutside + 2 * kLayer;
  TrainerConfig config = small_config();
  expect_updates(config, all * (24 + 4 + 2), all * 4);
  config.precision.compute = FloatType::float32;
  expect_updates(config, all * (24 + 4), all * 4);
  config.precision = {.compute = FloatType::bfloat16,
                      .reduce = FloatType::bfloat16,
                      .layers = {{.only = {0, 0}, .compute = FloatType::float32}}};
  config.run.ranks = 4;
  config.sharding.accumulate = sharding::Accumulate::full;
  // Sharded gradients keep the type of the reduction: float32 for layer 0.
  const double narrow = kOutside + kLayer;
  expect_updates(config, (narrow * (24 + 2 + 2) + kLayer * (24 + 4)) / 4, (narrow * 2 + kLayer * 4) / 4);
}

TEST(CallWork, OfUpdatesIsThatOfAShard) {
  constexpr double all = kOutside + 2 * kLayer;
  TrainerConfig config = small_config();
  config.run.ranks = 4;
  expect_updates(config, all * 30 / 4, all);
  config.sharding.strategy = sharding::Strategy::hybrid;
  config.sharding.shard_ranks = 2;
  expect_updates(config, all * 30 / 2, all * 4 / 2);
  config.sharding.strategy = sharding::Strategy::none;
  config.sharding.shard_ranks = 0;
  expect_updates(config, all * 30, all * 4);
}

TEST(CallWork, OfLayersOfAnotherTypeIsTheirMean) {
  TrainerConfig config = small_config();
  const OpKey norm{.layer = 1, .op = "add_layer_norm"}, outside{.layer = -1, .op = "add_layer_norm"};
  const double narrow = work_of_calls(config, {})(norm, 1).bytes;
  const double narrow_outside = work_of_calls(config, {})(outside, 1).bytes;
  config.precision.compute = FloatType::float32;
  const double wide = work_of_calls(config, {})(norm, 1).bytes;
  config.precision.compute = FloatType::bfloat16;
  config.precision.layers = {{.only = {0, 0}, .compute = FloatType::float32}};
  EXPECT_DOUBLE_EQ(work_of_calls(config, {})(norm, 1).bytes, (narrow + wide) / 2);
  EXPECT_DOUBLE_EQ(work_of_calls(config, {})(outside, 1).bytes, narrow_outside);
}

TEST(CallWork, OfWhatIsNotKnownIsNothing) {
  const WorkOfCalls work = work_of_calls(small_config(), {});
  EXPECT_EQ(work({.op = "aten::add_"}, 1).bytes, 0);
  EXPECT_EQ(work({.op = "all_gather", .level = "collective"}, 1).bytes, 0);
}

TEST(UsedShapes, OfTheOptimizerAreShards) {
  TrainerConfig config = small_config();
  config.run.ranks = 4;
  config.sharding.strategy = sharding::Strategy::hybrid;
  config.sharding.shard_ranks = 2;
  double elements = 0;
  for (const UsedShape& used : used_shapes(config, {})) {
    const auto* updates = used.shape.as<kernels::AdamwShape>();
    if (updates) elements += static_cast<double>(updates->elements * used.uses());
  }
  EXPECT_DOUBLE_EQ(elements, (kOutside + 2 * kLayer) / 2);
}

TEST(UsedShapes, EveryLayerIsCounted) {
  int64_t linears = 0, norms = 0;
  for (const UsedShape& used : used_shapes(small_config(), {})) {
    if (used.shape.op() == "linear") linears += used.uses();
    if (used.shape.op().find("layer_norm") != std::string::npos) norms += used.uses();
  }
  EXPECT_EQ(linears, 2 * 4 + 1);
  EXPECT_EQ(norms, 2 * 2 + 1);
}

}  // namespace
}  // namespace strata::trainer::profile
