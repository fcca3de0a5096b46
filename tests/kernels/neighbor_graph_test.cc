// SPDX-License-Identifier: MIT
// Checks both sides of NeighborGraph against lists of edges, and its errors.
#include "kernels/neighbor_aggregate/neighbor_graph.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace strata::kernels {
namespace {

Tensor longs(const std::vector<int64_t>& values) { return at::tensor(values, at::kLong); }

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "";
}

TEST(NeighborGraph, KeepsEveryEdgeOnBothSidesInOrder) {
  const int64_t sources = 13, targets = 9, edges = 2000;
  const Tensor from = at::randint(0, sources, {edges}, at::kLong), to = at::randint(0, targets, {edges}, at::kInt);
  to.slice(0, 0, 1200).fill_(4);
  Tensor order;
  const NeighborGraph graph = NeighborGraph::from_edges(from, to, sources, targets, &order);
  EXPECT_EQ(graph.edges(), edges);
  const int64_t *offsets = graph.by_target.offsets.const_data_ptr<int64_t>(),
                *other_offsets = graph.by_source.offsets.const_data_ptr<int64_t>();
  std::vector<int64_t> seen;
  for (int64_t target = 0; target < targets; ++target) {
    for (int64_t place = offsets[target]; place < offsets[target + 1]; ++place) {
      const int64_t edge = order[place].item<int64_t>();
      EXPECT_EQ(to[edge].item<int32_t>(), target);
      EXPECT_EQ(from[edge].item<int64_t>(), graph.by_target.neighbors[place].item<int32_t>());
      EXPECT_TRUE(place == offsets[target] || seen.back() < edge);
      seen.push_back(edge);
    }
  }
  std::sort(seen.begin(), seen.end());
  for (int64_t edge = 0; edge < edges; ++edge) ASSERT_EQ(seen[edge], edge);
  ASSERT_EQ(other_offsets[sources], edges);
  for (int64_t source = 0; source < sources; ++source) {
    for (int64_t place = other_offsets[source]; place < other_offsets[source + 1]; ++place) {
      const int64_t there = graph.edge_by_source[place].item<int32_t>();
      const int64_t target = graph.by_source.neighbors[place].item<int32_t>();
      EXPECT_EQ(graph.by_target.neighbors[there].item<int32_t>(), source);
      EXPECT_TRUE(offsets[target] <= there && there < offsets[target + 1]);
      EXPECT_TRUE(place == other_offsets[source] || graph.edge_by_source[place - 1].item<int32_t>() < there);
    }
  }
}

TEST(NeighborGraph, CutsLongRowsIntoPieces) {
  const Tensor offsets = longs({0, kLongRow, 2 * kLongRow + 1, 2 * kLongRow + 1, 5 * kLongRow + 1});
  const NeighborGraph graph = NeighborGraph::from_csr(offsets, at::zeros({5 * kLongRow + 1}, at::kInt), 2);
  EXPECT_TRUE(at::equal(graph.by_target.long_rows, longs({1, 3}).to(at::kInt)));
  EXPECT_TRUE(at::equal(graph.by_target.first_pieces, longs({0, 2, 5}).to(at::kInt)));
  EXPECT_EQ(graph.by_target.pieces, 5);
  EXPECT_TRUE(at::equal(graph.by_target.piece_rows, longs({1, 1, 3, 3, 3}).to(at::kInt)));
  EXPECT_TRUE(at::equal(graph.by_target.piece_begins,
                        longs({kLongRow, 2 * kLongRow, 2 * kLongRow + 1, 3 * kLongRow + 1, 4 * kLongRow + 1})));
  EXPECT_EQ(graph.by_source.pieces, 6);
}

TEST(NeighborGraph, HasEachOfItsTensorsReplaced) {
  NeighborGraph graph = NeighborGraph::from_edges(longs({2, 0, 2}), longs({1, 0, 1}), 3, 2);
  graph.by_source.long_rows = Tensor();
  int64_t replaced = 0;
  const NeighborGraph other = graph.with_each([&](const Tensor& tensor) {
    ++replaced;
    return tensor.add(1);
  });
  EXPECT_EQ(replaced, 12);
  EXPECT_EQ(other.targets, 2);
  EXPECT_EQ(other.sources, 3);
  EXPECT_FALSE(other.by_source.long_rows.defined());
  for (const auto& [one, two] : {std::pair{&graph.by_target, &other.by_target}, {&graph.by_source, &other.by_source}}) {
    EXPECT_TRUE(at::equal(one->offsets.add(1), two->offsets));
    EXPECT_TRUE(at::equal(one->neighbors.add(1), two->neighbors));
    EXPECT_TRUE(at::equal(one->first_pieces.add(1), two->first_pieces));
  }
  EXPECT_TRUE(at::equal(graph.edge_by_source.add(1), other.edge_by_source));
}

TEST(NeighborGraph, FromRowsEqualsFromEdges) {
  const NeighborGraph edges = NeighborGraph::from_edges(longs({2, 0, 2}), longs({1, 0, 1}), 3, 2);
  const NeighborGraph rows = NeighborGraph::from_csr(longs({0, 1, 3}), longs({0, 2, 2}), 3);
  EXPECT_TRUE(at::equal(edges.by_target.offsets, rows.by_target.offsets));
  EXPECT_TRUE(at::equal(edges.by_target.neighbors, rows.by_target.neighbors));
  EXPECT_TRUE(at::equal(edges.by_source.offsets, rows.by_source.offsets));
  EXPECT_TRUE(at::equal(edges.by_source.neighbors, rows.by_source.neighbors));
  EXPECT_TRUE(at::equal(edges.edge_by_source, rows.edge_by_source));
}

TEST(NeighborGraph, MayBeEmpty) {
  const NeighborGraph graph = NeighborGraph::from_edges(longs({}), longs({}), 0, 0);
  EXPECT_EQ(graph.edges(), 0);
  EXPECT_EQ(graph.by_target.rows(), 0);
}

TEST(NeighborGraph, RefusesWrongEdgesInOneSentence) {
  const auto edges = [](const Tensor& from, const Tensor& to) {
    return refusal([&] { NeighborGraph::from_edges(from, to, 3, 2); });
  };
  const auto rows = [](const Tensor& offsets, const Tensor& neighbors) {
    return refusal([&] { NeighborGraph::from_csr(offsets, neighbors, 3); });
  };
  const Tensor two = longs({0, 1});
  for (const auto& [found, expected] : {
           std::pair{edges(longs({0, 3}), two), "NeighborGraph: the source of edge 1 is 3, expected 0 to 2"},
           {edges(two, longs({-1, 0})), "NeighborGraph: the target of edge 0 is -1, expected 0 to 1"},
           {edges(two, longs({1})), "NeighborGraph: there are 2 edge_sources and 1 edge_targets, expected as many"},
           {edges(two.to(at::kFloat), two),
            "NeighborGraph: edge_sources are Float [2] on cpu, expected Long or Int in one dimension on cpu"},
           {edges(two, two.view({1, 2})),
            "NeighborGraph: edge_targets are Long [1, 2] on cpu, expected Long or Int in one dimension on cpu"},
           {refusal([&] { NeighborGraph::from_edges(two, two, int64_t{1} << 31, 2); }),
            "NeighborGraph: there are 2147483648 sources, expected 0 to 2^31 - 1"},
           {rows(longs({0, 2, 1, 2}), two), "NeighborGraph: row 1 begins at 2 and ends at 1"},
           {rows(longs({0, 3}), two),
            "NeighborGraph: offsets are from 0 to 3, expected from 0 to 2, the number of neighbors"},
           {rows(longs({}), two),
            "NeighborGraph: offsets are from 0 to 0, expected from 0 to 2, the number of neighbors"},
           {rows(longs({0, 2}), longs({0, 7})), "NeighborGraph: the source of edge 1 is 7, expected 0 to 2"},
       }) {
    EXPECT_EQ(found, expected);
  }
}

}  // namespace
}  // namespace strata::kernels
