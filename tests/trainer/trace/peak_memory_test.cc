// SPDX-License-Identifier: MIT
// Checks the bytes that are kept free for what a trace does not know.
#include "trainer/trace/peak_memory.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "trainer/config/load_config.h"
#include "trainer/tasks/declared_model.h"

namespace strata::trainer {
namespace {

constexpr int64_t kMebibyte = 1 << 20;
constexpr int64_t kMost = 1'000'000, kBatches = 50'000;

int64_t margin_with(const std::vector<std::string>& overrides) {
  const std::string text =
      "run: {folder: unused, ranks: 1, device: cpu}\nsteps: 1\nbatch: 2\nmicro_batch: 2\n"
      "model: {type: graph_network, convolution: gcn, layers: 2, width: 12, features: 16, classes: 5}\n"
      "data: {type: synthetic_graph, nodes: 60, edges: 400, neighbors: [5, 5]}\n"
      "optimizer: {type: adamw, learning_rate: 1e-2}\nschedule: {type: constant}\n";
  const TrainerConfig config = parse_trainer_config("test.yaml", text, overrides).config;
  StepTrace step;
  step.most = kMost;
  step.batches = kBatches;
  return margin_of(config, declared_groups(config.model), step);
}

const std::vector<std::string> kWhole = {"data.neighbors=all", "micro_batch=1", "batch=1"};

std::vector<std::string> whole_and(const std::string& override) {
  std::vector<std::string> all = kWhole;
  all.push_back(override);
  return all;
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
