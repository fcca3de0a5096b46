// SPDX-License-Identifier: MIT
// Checks the ops and collectives of a step, which promises add up, against those of small models by hand.
#include "trainer/prediction/step_calls.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "trainer/config/load_config.h"
#include "trainer/prediction/peak_memory.h"
#include "trainer/prediction/trace_step.h"
#include "trainer/tasks/declared_model.h"

namespace strata::trainer {
namespace {

using Texts = std::multiset<std::string>;

TrainerConfig config_of(const std::string& model, const std::string& data, const std::vector<std::string>& overrides) {
  const std::string text =
      "run: {folder: unused, ranks: 1, device: cpu}\nsteps: 1\nbatch: 2\nmicro_batch: 2\nmodel: {" + model +
      "}\ndata: {" + data + "}\noptimizer: {type: adamw, learning_rate: 1e-2}\nschedule: {type: constant}\n";
  return parse_trainer_config("test.yaml", text, overrides).config;
}

TrainerConfig gpt2(const std::vector<std::string>& overrides) {
  return config_of("type: transformer, family: gpt2, layers: 2, width: 8, heads: 2, sequence: 4, vocabulary: 10",
                   "type: text, train: unused, validation: unused", overrides);
}

StepCalls calls_of(const TrainerConfig& config) {
  StepCalls calls;
  trace_step(config, *task_to_trace(config), /*rank=*/0, &calls);
  return calls;
}

// Returns "2 linear 8x8->24 bias", or "... without input gradient", for the ops of one part.
Texts ops(const StepCalls& calls, StepPart part) {
  Texts texts;
  for (const OpCalls& call : calls.ops) {
    if (call.part != part) continue;
    texts.insert(std::to_string(call.calls) + " " + std::string(call.shape.op()) + " " + call.shape.text() +
                 (call.input_gradient ? "" : " without input gradient"));
  }
  return texts;
}

Texts collectives(const StepCalls& calls) {
  Texts texts;
  for (const CollectiveCalls& call : calls.collectives) {
    texts.insert(std::string(kStepPartNames[static_cast<size_t>(call.part)]) + ": " + std::to_string(call.calls) + " " +
                 std::string(name(call.operation)) + " of " + std::to_string(call.bytes) + " on " +
                 std::to_string(call.ranks));
  }
  return texts;
}

const Texts kForward = {"1 embedding 8x8 of 10",
                        "1 embedding 4x8 of 4",
                        "1 layer_norm 8x8 bias",
                        "2 linear 8x8->24 bias",
                        "2 attention 2x4 positions, 2 heads of 4, causal",
                        "2 linear 8x8->8 bias",
                        "4 add_layer_norm 8x8 bias",
                        "2 linear 8x8->32 gelu_tanh bias",
                        "2 linear 8x32->8 bias",
                        "1 linear 8x8->10",
                        "1 cross_entropy 8x10"};

TEST(StepCalls, AreThoseOfOneMicroBatchAndOneUpdate) {
  const StepCalls one = calls_of(gpt2({})), four = calls_of(gpt2({"batch=8"}));
  EXPECT_EQ(ops(one, StepPart::forward), kForward);
  EXPECT_EQ(ops(four, StepPart::forward), kForward);
  EXPECT_EQ(ops(one, StepPart::evaluation), kForward);
  EXPECT_EQ(ops(one, StepPart::recomputation), Texts{});
  EXPECT_EQ(ops(four, StepPart::optimizer).size(), 5u);
  EXPECT_EQ(collectives(four), Texts{});
}

TEST(StepCalls, HaveWhatTheBackwardComputesAgain) {
  const StepCalls calls = calls_of(gpt2({"gradient_checkpointing=full"}));
  EXPECT_EQ(ops(calls, StepPart::forward), kForward);
  Texts layers = kForward;  // embedding, head and loss belong to no layer
  for (const char* outside : {"1 embedding 8x8 of 10", "1 embedding 4x8 of 4", "1 linear 8x8->10",
                              "1 cross_entropy 8x10", "4 add_layer_norm 8x8 bias"}) {
    layers.erase(outside);
  }
  layers.insert("3 add_layer_norm 8x8 bias");  // the last one is the norm before the head
  EXPECT_EQ(ops(calls, StepPart::recomputation), layers);
}

TEST(StepCalls, HaveNoGradientOfData) {
  const StepCalls images = calls_of(config_of(
      "type: vision_transformer, layers: 1, heads: 2, pooling: mean, width: 8, image_size: 6, patch: 2, channels: 1, "
      "classes: 4",
      "type: idx, train_images: a, train_labels: b, validation_images: c, validation_labels: d", {}));
  EXPECT_EQ(ops(images, StepPart::forward).count("1 linear 18x4->8 bias without input gradient"), 1u);
  EXPECT_EQ(ops(images, StepPart::evaluation).count("1 linear 18x4->8 bias without input gradient"), 1u);
  const StepCalls nodes = calls_of(
      config_of("type: graph_network, convolution: sage, layers: 2, width: 12, features: 16, classes: 5, projection: "
                "dense",
                "type: synthetic_graph, nodes: 60, edges: 400", {"batch=1", "micro_batch=1"}));
  int64_t without = 0;
  for (const OpCalls& call : nodes.ops) {
    if (call.part != StepPart::forward || call.input_gradient) continue;
    without += call.calls;
    EXPECT_EQ(call.shape.op(), "linear");
  }
  EXPECT_EQ(without, 1);
}

// Each parameter takes a multiple of 64 elements of 4 bytes, and so does the shard of a rank: a layer has 1280, and the
// root 384 instead of 320.
TEST(StepCalls, HaveTheCollectivesOfAllMicroBatches) {
  const StepCalls calls = calls_of(gpt2({"run.ranks=2", "batch=20"}));  // 5 micro-batches
  EXPECT_EQ(collectives(calls),
            (Texts{"forward: 1 all_gather of 1536 on 2", "forward: 10 all_gather of 5120 on 2",
                   "backward: 5 all_gather of 5120 on 2", "backward: 10 reduce_scatter of 5120 on 2",
                   "backward: 1 reduce_scatter of 1536 on 2", "optimizer: 1 all_reduce of 52 on 2",
                   "evaluation: 1 all_gather of 1536 on 2", "evaluation: 2 all_gather of 5120 on 2"}));
}

// A layer has 3072 weights of products, and 8 biases and weights of norms in 512 elements, which all are in the shard
// of rank 1. So a row has 512 elements of 4 bytes. Ranks take the maximum of the magnitudes of 8 weights.
TEST(StepCalls, HaveTheBytesOfWeightsIn8Bits) {
  const StepCalls calls = calls_of(gpt2(
      {"run.ranks=2", "batch=4", "model.width=16", "precision.linear={format: fp8}", "sharding.gather_format=codes"}));
  EXPECT_EQ(collectives(calls),
            (Texts{"forward: 1 all_reduce_max of 32 on 2", "forward: 1 all_gather of 1536 on 2",
                   "forward: 2 all_gather of 3584 on 2", "forward: 2 all_gather of 4096 on 2",
                   "backward: 1 all_gather of 3584 on 2", "backward: 1 all_gather of 4096 on 2",
                   "backward: 2 reduce_scatter of 14336 on 2", "backward: 1 reduce_scatter of 1536 on 2",
                   "optimizer: 1 all_reduce of 52 on 2", "evaluation: 1 all_reduce_max of 32 on 2",
                   "evaluation: 1 all_gather of 1536 on 2", "evaluation: 2 all_gather of 3584 on 2",
                   "evaluation: 2 all_gather of 4096 on 2"}));
}

// Each of 8 linear layers has 3 histories. What they take and exchange does not depend on the number of ranks.
TEST(StepCalls, HaveTheMaximumOfDelayedScales) {
  const std::string delayed = "precision.linear={format: fp8, scaling: delayed, history: 16}";
  for (const std::string ranks : {"2", "4"}) {
    StepCalls calls;
    const TrainerConfig config = gpt2({"run.ranks=" + ranks, "batch=8", delayed});
    const StepTrace trace = trace_step(config, *task_to_trace(config), /*rank=*/0, &calls);
    EXPECT_EQ(collectives(calls).count("optimizer: 1 all_reduce_max of 96 on " + ranks), 1u) << ranks;
    const std::vector<MemoryClass> classes = PeakMemory(config).classes(trace);
    const auto row = std::ranges::find(classes, "histories of delayed scales", &MemoryClass::name);
    ASSERT_NE(row, classes.end());
    EXPECT_EQ(row->bytes, 4 * (24 * 16 + 24 + 24 + 16)) << ranks;
  }
}

// The loss, the squares of the gradients and the stop; the items that count, if some may not; 5 times for each rank of
// CPUs and one for each GPU; 4 parts of a hash for each rank, if ranks hold the same weights. Each has 4 bytes.
TEST(StepCalls, HaveTheNumbersThatRanksAddInAnUpdate) {
  const auto bytes = [](TrainerConfig config) {
    int64_t sum = 0;
    for (const CollectiveCalls& call : calls_of(config).collectives) {
      if (call.part == StepPart::optimizer && call.operation == sharding::Operation::all_reduce) sum += call.bytes;
    }
    return sum;
  };
  const std::string two = "run.ranks=2", four = "run.ranks=4", copies = "sharding.strategy=none";
  EXPECT_EQ(bytes(gpt2({})), 0);  // one rank has nobody to exchange with
  EXPECT_EQ(bytes(gpt2({two, "batch=4"})), 4 * (3 + 10));
  EXPECT_EQ(bytes(gpt2({two, "batch=4", "run.device=cuda"})), 4 * (3 + 2));
  EXPECT_EQ(bytes(gpt2({two, "batch=4", "data.documents=separate"})), 4 * (4 + 10));
  EXPECT_EQ(bytes(gpt2({two, "batch=4", "model.attention=causal | prefix(2)"})), 4 * (4 + 10));
  EXPECT_EQ(bytes(gpt2({four, "batch=8", copies})), 4 * (3 + 20 + 16));
  EXPECT_EQ(bytes(gpt2({four, "batch=8", copies, "sharding.compare_replicas_every=0"})), 4 * (3 + 20));
  const std::string image_model =
      "type: vision_transformer, layers: 1, heads: 2, pooling: mean, width: 8, image_size: 6, patch: 2, channels: 3, "
      "classes: 4";
  EXPECT_EQ(bytes(config_of(image_model, "type: image_folder, train: a, validation: b", {two, "batch=4"})),
            4 * (4 + 10));
}

// With ignored items, the decay of pruned weights needs the number of the others before the update.
TEST(StepCalls, HaveTheCountForTheDecayOfPrunedWeights) {
  const std::vector<std::string> pruned = {"run.ranks=2", "batch=4", "model.width=16", "sparsity.pattern=2:4",
                                           "model.attention=causal | prefix(2)"};
  EXPECT_EQ(collectives(calls_of(gpt2(pruned))).count("optimizer: 1 all_reduce of 4 on 2"), 1u);
  std::vector<std::string> without = pruned;
  without.emplace_back("sparsity.decay=0");
  EXPECT_EQ(collectives(calls_of(gpt2(without))).count("optimizer: 1 all_reduce of 4 on 2"), 0u);
}

TEST(StepCalls, ChangeNoOtherResultOfATrace) {
  const TrainerConfig config = gpt2({"run.ranks=2", "batch=20"});
  StepCalls calls;
  const StepTrace with = trace_step(config, *task_to_trace(config), /*rank=*/0, &calls);
  const StepTrace without = trace_step(config, *task_to_trace(config));
  EXPECT_EQ(with.peak, without.peak);
  EXPECT_EQ(with.kept, without.kept);
  EXPECT_EQ(with.batches, without.batches);
  EXPECT_EQ(with.evaluation, without.evaluation);
  EXPECT_EQ(with.shapes.size(), without.shapes.size());
}

}  // namespace
}  // namespace strata::trainer
