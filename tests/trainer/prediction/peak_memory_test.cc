// SPDX-License-Identifier: MIT
// Checks that a task may be traced again, the bytes of evaluations, and the bytes that are kept free for what a trace
// does not know.
#include "trainer/prediction/peak_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "trainer/config/load_config.h"
#include "trainer/tasks/task.h"

namespace strata::trainer {
namespace {

constexpr int64_t kMebibyte = 1 << 20;
constexpr int64_t kMost = 1'000'000, kBatches = 50'000;

TrainerConfig config_with(const std::vector<std::string>& overrides) {
  const std::string text =
      "run: {folder: unused, ranks: 1, device: cpu}\nsteps: 1\nbatch: 2\nmicro_batch: 2\n"
      "model: {type: graph_network, convolution: gcn, layers: 2, width: 12, features: 16, classes: 5}\n"
      "data: {type: synthetic_graph, nodes: 60, edges: 400, neighbors: [5, 5]}\n"
      "optimizer: {type: adamw, learning_rate: 1e-2}\nschedule: {type: constant}\n";
  return parse_trainer_config("test.yaml", text, overrides).config;
}

int64_t margin_with(const std::vector<std::string>& overrides) {
  StepTrace step;
  step.peak = kMost;
  step.batches = kBatches;
  step.calls_cublas = true;
  return PeakMemory(config_with(overrides)).margin(step);
}

const std::vector<std::string> kWhole = {"data.neighbors=all", "micro_batch=1", "batch=1"};

std::vector<std::string> whole_and(const std::string& override) {
  std::vector<std::string> all = kWhole;
  all.push_back(override);
  return all;
}

// `memory_budget` traces one task several times. The second trace replaces the model and what the task keeps on the
// device.
void expect_equal_traces(const TrainerConfig& config) {
  const std::unique_ptr<Task> task = task_to_trace(config);
  const StepTrace first = trace_step(config, *task), second = trace_step(config, *task);
  EXPECT_GT(first.task, 0);
  EXPECT_EQ(second.task, first.task);
  EXPECT_EQ(second.batches, first.batches);
  EXPECT_EQ(second.kept, first.kept);
  EXPECT_EQ(second.peak, first.peak);
}

TEST(StepTrace, IsTheSameForATaskThatWasTracedBefore) {
  expect_equal_traces(config_with(kWhole));
  expect_equal_traces(config_with({"data.neighbors=[5, 5]"}));
  expect_equal_traces(
      config_with({"model={type: transformer, family: llama, layers: 2, width: 8, heads: 2, key_value_heads: 1, "
                   "feed_forward: 12, sequence: 16, vocabulary: 37}",
                   "data={type: text, train: unused, validation: unused}"}));
}

int64_t bytes_of(const std::string& name, const StepTrace& step, const std::vector<std::string>& overrides) {
  for (const MemoryClass& part : PeakMemory(config_with(overrides)).classes(step)) {
    if (part.name == name) return part.bytes;
  }
  return 0;
}

// The memory of a captured step stays its own, so an evaluation needs more. Otherwise the larger of the two counts.
TEST(PeakMemory, HasRoomForAnEvaluation) {
  const std::string beside = "evaluations, beside the captured step", more = "more in evaluations";
  const std::vector<std::string> on_gpu = whole_and("run.device=cuda");
  std::vector<std::string> not_captured = on_gpu;
  not_captured.push_back("cuda_graph=off");
  StepTrace step;
  step.peak = kMost;
  step.evaluation = kMost / 2;
  EXPECT_EQ(bytes_of(beside, step, on_gpu), kMost / 2);
  EXPECT_EQ(bytes_of(beside, step, not_captured), 0);
  EXPECT_EQ(bytes_of(more, step, not_captured), 0);
  step.evaluation = 3 * kMost;
  EXPECT_EQ(bytes_of(more, step, not_captured), 2 * kMost);
  EXPECT_EQ(bytes_of(more, step, kWhole), 2 * kMost);
  EXPECT_EQ(bytes_of(more, step, on_gpu), 0);
}

TEST(StepTrace, HasTheScoresOfAnEvaluation) {
  const TrainerConfig config =
      config_with({"model={type: transformer, family: llama, layers: 2, width: 8, heads: 2, key_value_heads: 1, "
                   "feed_forward: 12, sequence: 16, vocabulary: 3700}",
                   "data={type: text, train: unused, validation: unused}", "kernels.linear_cross_entropy=aten"});
  const StepTrace step = trace_step_without_data(config).value();
  const int64_t scores = config.micro_batch * 16 * 3700 * static_cast<int64_t>(sizeof(float));
  EXPECT_GE(step.evaluation, scores);
  EXPECT_LT(step.evaluation, step.peak);
}

// As two ops, head and loss keep the logits before the cap, and an evaluation caps them in place. As one op they have
// the capped logits of a chunk besides, and a part of them for the gradient. Here a chunk and a part have all rows.
TEST(StepTrace, HasACopyOfCappedLogits) {
  constexpr double kSmall = 4096;  // bytes of numbers beside the logits
  for (const bool fused : {false, true}) {
    const auto traced = [&](const char* softcap) {
      const TrainerConfig config = config_with(
          {"model={type: transformer, family: llama, layers: 2, width: 8, heads: 2, key_value_heads: 1, feed_forward: "
           "12, sequence: 16, vocabulary: 3700, logit_softcap: " +
               std::string(softcap) + "}",
           "data={type: text, train: unused, validation: unused}",
           fused ? "kernels.linear_cross_entropy=aten" : "kernels.default=aten"});
      return std::pair(trace_step_without_data(config).value(),
                       config.micro_batch * 16 * 3700 * int64_t{sizeof(float)});
    };
    const auto [plain, logits] = traced("0");
    const auto [capped, same] = traced("30");
    EXPECT_NEAR(capped.peak - plain.peak, fused ? 2 * logits : logits, kSmall)
        << (fused ? "fused" : "two ops") << " at " << capped.peak_place;
    EXPECT_NEAR(capped.evaluation - plain.evaluation, fused ? logits : 0, kSmall);
  }
}

// Each step samples neighbors, and an evaluation sees the whole graph.
TEST(StepTrace, OfSampledNeighborsHasTheWholeGraphOfAnEvaluation) {
  const TrainerConfig sampled = config_with({"data.neighbors=[1, 1]"}), whole = config_with(kWhole);
  const int64_t evaluation = trace_step(sampled, *task_to_trace(sampled)).evaluation;
  EXPECT_GT(evaluation, 0);
  EXPECT_EQ(evaluation, trace_step(whole, *task_to_trace(whole)).evaluation);
}

// cuBLASLt has it while it multiplies.
TEST(StepTrace, HasTheWorkspaceOfProductsInFp8) {
  const auto most = [](const std::string& linear) {
    return trace_step_without_data(
               config_with({"model={type: transformer, family: llama, layers: 2, width: 32, heads: 2, "
                            "feed_forward: 64, sequence: 16, vocabulary: 64}",
                            "data={type: text, train: unused, validation: unused}", "run.device=cuda",
                            "kernels.default=cuda", "precision={compute: bfloat16, linear: " + linear + "}"}))
        .value();
  };
  const StepTrace plain = most("{format: none}");
  EXPECT_LT(plain.peak, kMebibyte);
  for (const char* scaling : {"current", "row", "delayed"}) {
    const StepTrace fp8 = most("{format: fp8, scaling: " + std::string(scaling) + "}");
    EXPECT_GE(fp8.peak, 32 * kMebibyte) << scaling;
    EXPECT_LT(fp8.peak, 33 * kMebibyte) << scaling << ": it is there once";
    EXPECT_LT(fp8.kept, kMebibyte) << scaling;
    EXPECT_GE(fp8.evaluation, 32 * kMebibyte) << scaling;
  }
  EXPECT_LT(most("{format: mxfp8}").peak, kMebibyte) << "it is emulated";
}

// A trace is that of the steps that prune.
TEST(StepTrace, OfARunThatPrunesLaterHasRoomForItsDenseSteps) {
  for (const char* family : {"llama", "gpt2"}) {
    for (const char* level : {"aten", "cuda"}) {
      const auto most = [&](const char* sparsity) {
        return trace_step_without_data(
                   config_with({std::string("model={type: transformer, family: ") + family +
                                    ", layers: 2, width: 32, heads: 2, feed_forward: 48, sequence: 16, "
                                    "vocabulary: 64}",
                                "data={type: text, train: unused, validation: unused}", "run.device=cuda", "steps=9",
                                std::string("kernels.default=") + level, "precision.compute=bfloat16", sparsity}))
            .value()
            .peak;
      };
      const int64_t later = most("sparsity={pattern: 2:4, from_step: 5}");
      EXPECT_EQ(later, most("sparsity={pattern: 2:4}"));
      EXPECT_GE(later, most("sparsity={pattern: none}")) << family << " " << level;
    }
  }
}

// Products at level triton need no cuBLAS: 12 steps on an H200 took 64 MiB less than was predicted with its workspaces.
TEST(PeakMemory, HasWorkspacesIfAProductIsOfCublas) {
  const auto workspaces = [](const std::string& kernels) {
    const TrainerConfig config = config_with({"data.neighbors=all", "micro_batch=1", "batch=1", "run.device=cuda",
                                              "precision.compute=bfloat16", "kernels=" + kernels});
    const std::vector<MemoryClass> classes = PeakMemory(config).classes(trace_step(config, *task_to_trace(config)));
    const auto found = std::ranges::find(classes, "workspaces of libraries", &MemoryClass::name);
    return found == classes.end() ? 0 : found->bytes;
  };
  EXPECT_EQ(workspaces("{default: triton}"), 0);
  EXPECT_EQ(workspaces("{default: cuda}"), 64 * kMebibyte);
  EXPECT_EQ(workspaces("{default: triton, linear: aten}"), 64 * kMebibyte);
  EXPECT_EQ(workspaces("{default: aten, linear: triton}"), 0);
}

TEST(Margin, IsNothingWhereATraceIsExact) { EXPECT_EQ(margin_with(kWhole), 0); }

TEST(Margin, IsForOneDnnIn16Bits) {
  EXPECT_EQ(margin_with(whole_and("precision.compute=bfloat16")), 8 * kMebibyte);
  EXPECT_EQ(margin_with(whole_and("precision.layers=[{only: 1, compute: bfloat16}]")), 8 * kMebibyte);
}

TEST(Margin, IsForBatchesThatDiffer) { EXPECT_EQ(margin_with({}), (kMost + kBatches) / 10); }

// Two workspaces of 32 MiB are predicted, and one is not. The rest is far below 100 MB.
TEST(Margin, OfGpusGrowsWithThePrediction) {
  const int64_t margin = margin_with(whole_and("run.device=cuda"));
  EXPECT_GE(margin, 32 * kMebibyte + (64 * kMebibyte + kMost + kBatches) / 100);
  EXPECT_LT(margin, 32 * kMebibyte + 1'000'000);
}

}  // namespace
}  // namespace strata::trainer
