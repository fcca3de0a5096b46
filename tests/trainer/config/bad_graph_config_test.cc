// SPDX-License-Identifier: MIT
// Checks the messages for errors of a graph network and its data, word for word, with their places.
#include <gtest/gtest.h>

#include "tests/trainer/config/config_texts.h"
#include "trainer/config/graph_data_facts.h"

namespace strata::trainer {
namespace {

constexpr int kBatch = 3, kMicroBatch = 4, kModel = 5, kData = 6, kKernels = 11,
              kEvaluation = 13;  // lines of the configuration

const std::string kNetwork = "model: {type: graph_network, features: 9, layers: 4, width: 64, classes: 7";

// Returns a good configuration of a graph network with one line replaced.
std::string graph_config_with(int number, const std::string& line) {
  return config_with({{kBatch, "batch: 1"},
                      {kMicroBatch, "micro_batch: 1"},
                      {kModel, kNetwork + ", convolution: sage}"},
                      {kData, "data: {type: graph, file: a.npz}"},
                      {kEvaluation, "evaluation: {every: 50}"},
                      {number, line}});
}

class BadGraphLine : public testing::TestWithParam<BadLine> {};

TEST_P(BadGraphLine, IsReportedAlone) {
  expect_reported_alone(report_of(graph_config_with(GetParam().number, GetParam().line)), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadGraphLine,
    testing::Values(
        BadLine{"unknown_convolution", kModel, kNetwork + ", convolution: sgae}",
                "run.yaml:5:90: model.convolution: expected sage, gcn, gin or gat, got 'sgae'; did you mean 'sage'?"},
        BadLine{"unknown_activation", kModel, kNetwork + ", convolution: gcn, activation: gleu}",
                "run.yaml:5:107: model.activation: expected relu, gelu, gelu_tanh or silu, got 'gleu'; did you mean "
                "'gelu'?"},
        BadLine{"no_convolution", kModel, kNetwork + "}",
                "run.yaml:5:1: model.convolution: missing; expected sage, gcn, gin or gat"},
        BadLine{"heads_of_gcn", kModel, kNetwork + ", convolution: gcn, heads: 4}",
                "run.yaml:5:95: model.heads: expected 1, because only convolution: gat has heads, got 4"},
        BadLine{"heads_do_not_divide", kModel, kNetwork + ", convolution: gat, heads: 5}",
                "run.yaml:5:95: model.heads: width 64 is not a multiple of heads 5; the nearest that divide it are 4 "
                "and 8"},
        BadLine{"reduction_of_gcn", kModel, kNetwork + ", convolution: gcn, reduction: max}",
                "run.yaml:5:95: model.reduction: expected none, because only convolution: sage has a choice, got max"},
        BadLine{"key_of_language_models", kModel, kNetwork + ", convolution: gin, sequence: 9}",
                "run.yaml:5:95: model.sequence: unknown key here; it belongs to type: transformer"},
        BadLine{"data_of_language_models", kData, "data: {type: text, train: a, validation: b}",
                "run.yaml:6:8: data.type: a model of type graph_network is not trained on data of type text"},
        BadLine{"no_file", kData, "data: {type: graph}", "run.yaml:6:1: data.file: missing; expected text"},
        BadLine{"no_nodes", kData, "data: {type: synthetic_graph, edges: 9}",
                "run.yaml:6:1: data.nodes: missing; expected an integer, at least 5, at most 2000000000"},
        BadLine{"several_graphs", kBatch, "batch: 2",
                "run.yaml:3:1: batch: expected 1, because a sample is the whole graph, got 2"},
        BadLine{"nodes_of_pooled_graphs", kModel, kNetwork + ", convolution: gin, pooling: sum}",
                "run.yaml:5:95: model.pooling: expected none, because data.type graph has labels of nodes, got sum"},
        BadLine{"evaluation_of_tokens", kEvaluation, "evaluation: {tokens: 64}",
                "run.yaml:13:14: evaluation.tokens: expected 0, because an evaluation visits all validation nodes, "
                "got 64"},
        BadLine{"last_evaluation_of_tokens", kEvaluation, "evaluation: {final_tokens: 64}",
                "run.yaml:13:14: evaluation.final_tokens: expected 0, because an evaluation visits all validation "
                "nodes, got 64"},
        BadLine{"shown_samples", kEvaluation, "evaluation: {samples: 2}",
                "run.yaml:13:14: evaluation.samples: expected 0, because evaluations show samples of texts and images "
                "only, got 2"},
        BadLine{"head_with_the_loss", kKernels, "kernels: {default: aten, linear_cross_entropy: aten}",
                "run.yaml:11:26: kernels.linear_cross_entropy: computes head and loss of language models together; "
                "expected none, because a graph_network ends with a convolution"},
        BadLine{"layer_past_the_model", kKernels, "kernels: {default: aten, layers: [{only: 2-4, linear: aten}]}",
                "run.yaml:11:36: kernels.layers.0.only: expected layers below model.layers 4, counted from 0, got "
                "2-4"}),
    [](const auto& info) { return info.param.name; });

// Returns a good configuration with these data, whose samples are split over the two ranks.
std::string samples_config_with(const std::string& data) {
  return config_with({{kBatch, "batch: 2"},
                      {kMicroBatch, "micro_batch: 1"},
                      {kModel, kNetwork + ", convolution: sage}"},
                      {kData, data},
                      {kEvaluation, "evaluation: {every: 50}"}});
}

TEST(GraphConfig, RefusesOtherFanOutsThanLayers) {
  expect_reported_alone(
      report_of(samples_config_with("data: {type: graph, file: a.npz, neighbors: [5, 5, 5, 5, 5]}")),
      "run.yaml:6:34: data.neighbors: expected all or a list of 4, one for each of model.layers, got 5");
  expect_reported_alone(
      report_of(graph_config_with(kData, "data: {type: graph, file: a.npz, neighbors: []}")),
      "run.yaml:6:34: data.neighbors: expected all or a list of 4, one for each of model.layers, got 0");
  expect_reported_alone(report_of(samples_config_with("data: {type: graph, file: a.npz, neighbors: [5, 0, 5, 5]}")),
                        "run.yaml:6:49: data.neighbors.1: expected an integer, at least 1, at most 1000000, got '0'");
}

TEST(GraphConfig, CapturesNoStepsOfDifferentSizes) {
  for (const char* data :
       {"data: {type: graph, file: a.npz, neighbors: [5, 5, 5, 5]}", "data: {type: ogb_graphs, folder: a}"}) {
    const std::string pooling = std::string(data).find("ogb") == std::string::npos ? "none" : "mean";
    EXPECT_EQ(report_of(samples_config_with(data), {"model.pooling=" + pooling, "cuda_graph=on"}),
              "override 'cuda_graph=on': cuda_graph: on captures one step for all, and each step sees graphs of other "
              "sizes; expected auto\n");
  }
  EXPECT_EQ(report_of(graph_config_with(0, ""), {"cuda_graph=on"}), "no error");
}

TEST(GraphConfig, PoolsNodesWhereGraphsHaveLabels) {
  expect_reported_alone(
      report_of(samples_config_with("data: {type: ogb_graphs, folder: a}")),
      "run.yaml:5:1: model.pooling: expected mean, sum or attention, because data.type ogb_graphs has "
      "labels of graphs, got none");
}

TEST(GraphConfig, SharesItsSampleBetweenRanks) {
  const TrainerConfig config = parse_trainer_config("run.yaml", graph_config_with(0, ""), {"run.ranks=3"}).config;
  EXPECT_TRUE(shares_samples(config.model, config.data));
  EXPECT_EQ(config.micro_batches(), 1);
  const TrainerConfig sampled =
      parse_trainer_config("run.yaml", graph_config_with(0, ""), {"data.neighbors=[5, 4, 3, 2]", "batch=12"}).config;
  EXPECT_FALSE(shares_samples(sampled.model, sampled.data));
  EXPECT_EQ(sampled.micro_batches(), 6);  // on two ranks, with one node each
  const TrainerConfig many =
      parse_trainer_config("run.yaml", graph_config_with(kData, "data: {type: ogb_graphs, folder: a}"),
                           {"model.pooling=mean", "batch=12", "micro_batch=3"})
          .config;
  EXPECT_FALSE(shares_samples(many.model, many.data));
  EXPECT_EQ(many.micro_batches(), 2);
}

}  // namespace
}  // namespace strata::trainer
