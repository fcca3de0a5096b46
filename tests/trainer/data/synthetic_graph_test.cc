// SPDX-License-Identifier: MIT
#include "trainer/data/graphs/synthetic_graph.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/diff.h>
#include <gtest/gtest.h>

#include <map>

namespace strata::trainer {
namespace {

constexpr SyntheticGraph kSize = {
    .nodes = 1000, .edges = 20000, .features = 12, .classes = 7, .sparse_features = false, .seed = 3};

TEST(SyntheticGraph, HasTheSizesThatItIsAskedFor) {
  const GraphData graph = make_graph(kSize);
  check_graph(graph, kSize.classes);
  EXPECT_EQ(graph.edges(), kSize.edges);
  EXPECT_EQ(graph.offsets.numel(), kSize.nodes + 1);
  EXPECT_EQ(graph.offsets[kSize.nodes].item<int64_t>(), kSize.edges);
  EXPECT_EQ(graph.dense_features.sizes(), (at::IntArrayRef{1000, 12}));
  EXPECT_EQ(graph.train.numel(), 800);
  EXPECT_EQ(graph.validation.numel(), 200);
  EXPECT_GE(graph.neighbors.min().item<int64_t>(), 0);
  EXPECT_LT(graph.neighbors.max().item<int64_t>(), kSize.nodes);
}

TEST(SyntheticGraph, HasNodesThatManyEdgesLeaveFrom) {
  const GraphData graph = make_graph(kSize);
  std::map<int64_t, int64_t> leaving;
  for (int64_t i = 0; i < graph.edges(); ++i) ++leaving[graph.neighbors[i].item<int64_t>()];
  // P(u^3 < 1 / 1000) = 1 / 10, and the deviation is 42.
  EXPECT_NEAR(static_cast<double>(leaving[0]), 2000, 200);
  EXPECT_LT(at::diff(graph.offsets).max().item<int64_t>(), 60);  // targets are uniform: mean 20, deviation 4.5
}

TEST(SyntheticGraph, DependsOnTheSeedAlone) {
  SyntheticGraph other = kSize;
  EXPECT_EQ(fingerprint_of(make_graph(kSize)), fingerprint_of(make_graph(other)));
  other.seed = 4;
  EXPECT_NE(fingerprint_of(make_graph(kSize)), fingerprint_of(make_graph(other)));
}

TEST(SyntheticGraph, MayHaveSparseFeatures) {
  SyntheticGraph size = kSize;
  size.sparse_features = true;
  const GraphData graph = make_graph(size);
  check_graph(graph, kSize.classes);
  EXPECT_TRUE(graph.is_sparse());
  EXPECT_EQ(graph.sparse_features.offsets.numel(), 1001);
  EXPECT_EQ(graph.sparse_features.columns.numel(), 8000);
  EXPECT_LT(graph.sparse_features.columns.max().item<int64_t>(), 12);
}

}  // namespace
}  // namespace strata::trainer
