// SPDX-License-Identifier: MIT
#include "trainer/data/graphs/neighbor_sampler.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "trainer/data/graphs/convolution_matrix.h"
#include "trainer/data/graphs/synthetic_graph.h"

namespace strata::trainer {
namespace {

using Rule = NeighborSampler::Rule;

std::vector<int64_t> list(const Tensor& tensor) {
  return {tensor.const_data_ptr<int64_t>(), tensor.const_data_ptr<int64_t>() + tensor.numel()};
}

const GraphData& graph() {
  static const GraphData kGraph = [] {
    GraphData random =
        make_graph({.nodes = 400, .edges = 6000, .features = 3, .classes = 5, .sparse_features = false, .seed = 1});
    const Tensor targets = at::arange(random.nodes).repeat_interleave(random.offsets.diff());
    set_edges(random, random.neighbors.clone(), targets, /*undirected=*/false);  // each edge once
    return random;
  }();
  return kGraph;
}

SparseRows plain_rows() { return {graph().offsets, graph().neighbors, {}}; }

std::vector<int64_t> neighbors_of(const SparseRows& rows, int64_t row) {
  const auto offsets = list(rows.offsets), columns = list(rows.columns);
  return {columns.begin() + offsets[static_cast<size_t>(row)], columns.begin() + offsets[static_cast<size_t>(row) + 1]};
}

// Returns the neighbors of each target of a layer, as nodes of the graph.
std::map<int64_t, std::vector<int64_t>> sampled(const SampledNeighborhood& part, size_t layer) {
  const std::vector<int64_t> nodes = list(part.nodes);
  std::map<int64_t, std::vector<int64_t>> result;
  for (int64_t row = 0; row + 1 < part.layers[layer].rows.offsets.numel(); ++row) {
    for (const int64_t source : neighbors_of(part.layers[layer].rows, row)) {
      EXPECT_LT(source, part.layers[layer].sources);
      result[nodes[static_cast<size_t>(row)]].push_back(nodes[static_cast<size_t>(source)]);
    }
  }
  return result;
}

const Tensor kSeeds = at::tensor(std::vector<int64_t>{7, 300, 12, 0, 399}, at::kLong);

TEST(NeighborSampler, TakesSomeNeighborsEachOnce) {
  const SparseRows rows = plain_rows();
  const SampledNeighborhood part = NeighborSampler(rows, {.fan_outs = {4, 3}}).sample(kSeeds, 11);
  ASSERT_EQ(part.layers.size(), 2u);
  EXPECT_TRUE(at::equal(part.nodes.slice(0, 0, 5), kSeeds));
  EXPECT_EQ(part.layers[1].rows.offsets.numel(), 6);
  EXPECT_EQ(part.layers[0].rows.offsets.numel(), part.layers[1].sources + 1);
  EXPECT_EQ(part.layers[0].sources, part.nodes.numel());
  const std::vector<int64_t> nodes = list(part.nodes);
  EXPECT_EQ(std::set<int64_t>(nodes.begin(), nodes.end()).size(), nodes.size());
  for (const size_t layer : {0, 1}) {
    for (const auto& [node, some] : sampled(part, layer)) {
      const std::vector<int64_t> all = neighbors_of(rows, node);
      EXPECT_EQ(some.size(), std::min<size_t>(all.size(), layer == 1 ? 4 : 3));
      const std::set<int64_t> different(some.begin(), some.end());
      EXPECT_EQ(different.size(), some.size());
      for (const int64_t neighbor : different) EXPECT_EQ(std::count(all.begin(), all.end(), neighbor), 1);
    }
  }
}

TEST(NeighborSampler, SeesTheSameHoweverSeedsAreSpread) {
  const SparseRows rows = plain_rows();
  const NeighborSampler sampler(rows, {.fan_outs = {4, 3, 2}});
  const SampledNeighborhood whole = sampler.sample(kSeeds, 5);
  for (int64_t i = 0; i < kSeeds.numel(); ++i) {
    const SampledNeighborhood part = sampler.sample(kSeeds.slice(0, i, i + 1), 5);
    for (const size_t layer : {0, 1, 2}) {
      auto expected = sampled(whole, layer);
      for (const auto& [node, some] : sampled(part, layer)) EXPECT_EQ(some, expected.at(node));
    }
  }
  EXPECT_NE(sampled(whole, 2), sampled(sampler.sample(kSeeds, 6), 2));
}

TEST(NeighborSampler, SeesTheSameOnAnyNumberOfThreads) {
  const GraphData large =
      make_graph({.nodes = 20000, .edges = 200000, .features = 1, .classes = 2, .sparse_features = false, .seed = 2});
  const NeighborSampler sampler({large.offsets, large.neighbors, {}}, {.fan_outs = {4, 3}, .scales_sums = true});
  const auto on_threads = [&](int threads) {
    at::set_num_threads(threads);
    return sampler.sample(large.train, 7);
  };
  const SampledNeighborhood one = on_threads(1), four = on_threads(4);
  at::set_num_threads(1);
  EXPECT_TRUE(at::equal(one.nodes, four.nodes));
  for (const size_t layer : {0, 1}) {
    EXPECT_TRUE(at::equal(one.layers[layer].rows.columns, four.layers[layer].rows.columns));
    EXPECT_TRUE(at::equal(one.layers[layer].rows.values, four.layers[layer].rows.values));
  }
}

TEST(NeighborSampler, GivesASeedThatIsThereTwiceTwoRows) {
  const SparseRows rows = plain_rows();
  const Tensor seeds = at::tensor(std::vector<int64_t>{7, 12, 7}, at::kLong);
  const SampledNeighborhood part = NeighborSampler(rows, {.fan_outs = {4, 3}}).sample(seeds, 11);
  EXPECT_TRUE(at::equal(part.nodes.slice(0, 0, 3), seeds));
  ASSERT_EQ(part.layers[1].rows.offsets.numel(), 4);
  EXPECT_EQ(neighbors_of(part.layers[1].rows, 0), neighbors_of(part.layers[1].rows, 2));
}

TEST(NeighborSampler, TakesEachNeighborAsOftenAsAnyOther) {
  constexpr int64_t kNeighbors = 200, kDraws = 3000;
  const Tensor offsets = at::full({kNeighbors + 2}, kNeighbors, at::kLong);  // node 0 has all other nodes as neighbors
  offsets.slice(0, 0, 1).zero_();
  const SparseRows rows{offsets, at::arange(1, kNeighbors + 1, at::kLong), {}};
  for (const int64_t fan_out : {1, 7, 64, 65, 150}) {  // the sampler draws small and large numbers in different ways
    const NeighborSampler sampler(rows, {.fan_outs = {fan_out}});
    std::vector<int64_t> times(kNeighbors + 1);
    for (int64_t draw = 0; draw < kDraws; ++draw) {
      const SampledNeighborhood part = sampler.sample(at::zeros({1}, at::kLong), static_cast<uint64_t>(draw));
      const std::vector<int64_t> nodes = list(part.nodes);
      ASSERT_EQ(std::set<int64_t>(nodes.begin(), nodes.end()).size(), static_cast<size_t>(fan_out + 1));
      for (const int64_t node : nodes) ++times[static_cast<size_t>(node)];
    }
    const double share = static_cast<double>(fan_out) / kNeighbors;
    const double deviation = std::sqrt(kDraws * share * (1 - share));
    for (size_t node = 1; node <= kNeighbors; ++node) {
      EXPECT_NEAR(static_cast<double>(times[node]), kDraws * share, 5 * deviation) << node << " of " << fan_out;
    }
  }
}

TEST(NeighborSampler, TakesAllWhereThereAreFew) {
  const SparseRows rows = plain_rows();
  const auto some = sampled(NeighborSampler(rows, {.fan_outs = {1000}}).sample(kSeeds, 1), 0);
  for (const int64_t seed : list(kSeeds)) {
    if (some.contains(seed)) {
      EXPECT_EQ(some.at(seed), neighbors_of(rows, seed));
    }
  }
}

TEST(NeighborSampler, ScalesSumsToTheirExpectation) {
  const modules::GraphNetworkConfig gcn{.convolution = modules::GraphConvolutionKind::gcn};
  const SparseRows rows = convolution_matrix(gcn, graph());
  const NeighborSampler sampler(rows, {.fan_outs = {3}, .has_self_loops = true, .scales_sums = true});
  const int64_t node = 12;
  const auto all = neighbors_of(rows, node);
  ASSERT_GT(all.size(), 6u);
  double expected = 0, sum = 0;
  const int64_t first = rows.offsets[node].item<int64_t>();
  for (size_t i = 0; i < all.size(); ++i) {
    expected += rows.values[first + static_cast<int64_t>(i)].item<float>() * static_cast<double>(all[i]);
  }
  constexpr int kDraws = 4000;
  for (int draw = 0; draw < kDraws; ++draw) {
    const SampledNeighborhood part = sampler.sample(at::tensor(std::vector<int64_t>{node}, at::kLong), draw);
    const auto columns = list(part.layers[0].rows.columns), nodes = list(part.nodes);
    ASSERT_EQ(columns.size(), 4u);
    EXPECT_EQ(columns[0], 0);  // itself
    for (size_t i = 0; i < columns.size(); ++i) {
      sum += part.layers[0].rows.values[static_cast<int64_t>(i)].item<float>() *
             static_cast<double>(nodes[static_cast<size_t>(columns[i])]);
    }
  }
  EXPECT_NEAR(sum / kDraws, expected, 0.03 * expected);  // 3 deviations
}

}  // namespace
}  // namespace strata::trainer
