// SPDX-License-Identifier: MIT
// Rules of a run whose ranks share sequences. The good configuration has 2 ranks, a batch of 16, micro-batches of 4 and
// sequences of 32 tokens.
#include <gtest/gtest.h>

#include "tests/trainer/config/config_texts.h"

namespace strata::trainer {
namespace {

std::string report_with(int64_t ranks, int64_t shared_by, std::vector<std::string> overrides = {}) {
  overrides.push_back("run.ranks=" + std::to_string(ranks));
  overrides.push_back("sharding.sequence=" + std::to_string(shared_by));
  return first_line(report_of(config_with(0, ""), overrides));
}

TEST(BadSequenceConfig, GroupsOfRanksAreWhole) {
  EXPECT_EQ(report_with(2, 2), "no error");
  EXPECT_EQ(report_with(8, 2), "no error");
  EXPECT_EQ(report_with(3, 2),
            "override 'sharding.sequence=2': sharding.sequence: expected a divisor of run.ranks 3, got 2");
  EXPECT_EQ(report_with(2, 4),
            "override 'sharding.sequence=4': sharding.sequence: expected a divisor of run.ranks 2, got 4");
}

TEST(BadSequenceConfig, ChunksAreEqual) {
  EXPECT_EQ(report_with(16, 16), "no error");
  EXPECT_EQ(report_with(6, 6, {"batch=12"}).substr(0, 8), "run.yaml");
  EXPECT_EQ(
      report_with(4, 4, {"model.sequence=36"}),
      "override 'model.sequence=36': model.sequence: 36 is not a multiple of 2 x sharding.sequence 4 = 8; nearest "
      "that are: 32 and 40");
  EXPECT_EQ(report_with(32, 32, {"model.sequence=16"}),
            "override 'model.sequence=16': model.sequence: 16 is not a multiple of 2 x sharding.sequence 32 = 64; the "
            "nearest is 64");
}

TEST(BadSequenceConfig, ABatchCountsSequencesOfGroups) {
  EXPECT_EQ(report_with(8, 2, {"batch=32"}), "no error");
  EXPECT_EQ(
      report_with(8, 2, {"batch=24"}),
      "override 'batch=24': batch: 24 is not a multiple of micro_batch 4 x run.ranks 8 / sharding.sequence 2 = 16; "
      "nearest that are: 16 and 32; or take micro_batch 3");
  const TrainerConfig config =
      parse_trainer_config("run.yaml", config_with(0, ""), {"run.ranks=8", "sharding.sequence=4"}).config;
  EXPECT_EQ(config.sample_groups(), 2);
  EXPECT_EQ(config.global_micro_batch(), 8);
  EXPECT_EQ(config.micro_batches(), 2);
}

TEST(BadSequenceConfig, OnlyTransformersHaveSequences) {
  const std::string graph =
      "model={type: graph_network, convolution: gcn, projection: dense, features: 8, layers: 2, width: 8, classes: 3}";
  EXPECT_EQ(
      report_with(2, 2,
                  {graph, "data={type: synthetic_graph, nodes: 9, edges: 9}", "batch=1", "micro_batch=1",
                   "evaluation.tokens=0"}),
      "override 'sharding.sequence=2': sharding.sequence: expected 1, because only sequences of a transformer are "
      "split over ranks, got 2 and a model of type graph_network");
}

}  // namespace
}  // namespace strata::trainer
