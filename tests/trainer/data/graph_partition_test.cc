// SPDX-License-Identifier: MIT
#include "trainer/data/graphs/graph_partition.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "trainer/data/graphs/metis_order.h"
#include "trainer/data/graphs/synthetic_graph.h"

namespace strata::trainer {
namespace {

std::vector<int64_t> list(const Tensor& tensor) {
  return {tensor.const_data_ptr<int64_t>(), tensor.const_data_ptr<int64_t>() + tensor.numel()};
}

GraphData random_graph(bool sparse) {
  return make_graph({.nodes = 500, .edges = 3000, .features = 9, .classes = 5, .sparse_features = sparse, .seed = 1});
}

// Returns the dense matrix, [nodes, nodes].
Tensor dense(const SparseRows& rows, int64_t columns) {
  const std::vector<int64_t> offsets = list(rows.offsets), column = list(rows.columns);
  const Tensor matrix = at::zeros({static_cast<int64_t>(offsets.size()) - 1, columns});
  for (size_t row = 0; row + 1 < offsets.size(); ++row) {
    for (int64_t e = offsets[row]; e < offsets[row + 1]; ++e) {
      matrix[static_cast<int64_t>(row)][column[static_cast<size_t>(e)]] += 1;
    }
  }
  return matrix;
}
Tensor dense(const GraphData& graph) { return dense({graph.offsets, graph.neighbors, {}}, graph.nodes); }

TEST(GraphPartition, ANewOrderIsTheSameGraph) {
  for (const bool sparse : {false, true}) {
    const GraphData graph = random_graph(sparse);
    const GraphOrder order = order_by_metis(graph);
    std::vector<int64_t> nodes = list(order.nodes);
    std::sort(nodes.begin(), nodes.end());
    EXPECT_EQ(nodes, list(at::arange(graph.nodes, at::kLong)));
    const GraphData other = reordered(graph, order);
    check_graph(other, 5);
    const auto in_order = [&](const Tensor& x) { return x.index_select(0, order.nodes); };
    EXPECT_TRUE(at::equal(dense(other), in_order(in_order(dense(graph)).t()).t()));
    EXPECT_TRUE(at::equal(other.labels, in_order(graph.labels)));
    EXPECT_EQ(order.nodes.index_select(0, other.train).sum().item<int64_t>(), graph.train.sum().item<int64_t>());
    if (sparse) {
      EXPECT_TRUE(at::equal(dense(other.sparse_features, 9), in_order(dense(graph.sparse_features, 9))));
    } else {
      EXPECT_TRUE(at::equal(other.dense_features, in_order(graph.dense_features)));
    }
  }
  EXPECT_TRUE(at::equal(order_by_metis(random_graph(false)).nodes, order_by_metis(random_graph(true)).nodes));
}

TEST(GraphPartition, RangesAreWholePartsAndCoverAllNodes) {
  const GraphData graph = random_graph(false);
  for (const GraphOrder& order : {order_by_metis(graph), order_of_file(graph)}) {
    const std::set<int64_t> parts(order.offsets.begin(), order.offsets.end());
    for (int64_t ranks = 1; ranks <= 5; ++ranks) {
      const std::vector<int64_t> ranges = ranges_of_ranks(order, ranks);
      ASSERT_EQ(static_cast<int64_t>(ranges.size()), ranks + 1);
      EXPECT_EQ(ranges.front(), 0);
      EXPECT_EQ(ranges.back(), graph.nodes);
      for (size_t rank = 0; rank < ranges.size(); ++rank) {
        EXPECT_TRUE(parts.contains(ranges[rank]));
        EXPECT_TRUE(rank == 0 || ranges[rank] > ranges[rank - 1]);
      }
    }
  }
  GraphOrder few{.nodes = {}, .offsets = {0, 1, 2, 3}};
  EXPECT_EQ(ranges_of_ranks(few, 5), (std::vector<int64_t>{0, 0, 1, 1, 2, 3}));
}

TEST(GraphPartition, PartsFitTogether) {
  const GraphData graph = random_graph(false);
  const SparseRows rows{graph.offsets, graph.neighbors, at::arange(graph.edges(), at::kFloat)};
  const Tensor whole = dense(rows, graph.nodes);
  for (const int64_t ranks : {1, 2, 3, 4}) {
    const std::vector<int64_t> ranges = ranges_of_ranks(order_of_file(graph), ranks);
    std::vector<GraphPart> parts;
    for (int64_t rank = 0; rank < ranks; ++rank) parts.push_back(part_of(rows, ranges, rank));
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const GraphPart& part = parts[static_cast<size_t>(rank)];
      // The columns of a rank's matrix are its own nodes and its halo.
      std::vector<int64_t> sources = list(at::arange(part.begin, part.end, at::kLong));
      for (const int64_t node : list(part.halo)) sources.push_back(node);
      const Tensor expected = whole.slice(0, part.begin, part.end).index_select(1, at::tensor(sources, at::kLong));
      EXPECT_TRUE(at::equal(dense(part.rows, static_cast<int64_t>(sources.size())), expected));
      EXPECT_EQ(expected.sum().item<float>(), whole.slice(0, part.begin, part.end).sum().item<float>());
      const int64_t first = graph.offsets[part.begin].item<int64_t>();
      EXPECT_TRUE(at::equal(part.rows.values, rows.values.slice(0, first, first + part.rows.columns.numel())));
      // A rank receives from each other rank exactly what that rank sends to it.
      int64_t place = 0;
      for (int64_t other = 0; other < ranks; ++other) {
        const GraphPart& sender = parts[static_cast<size_t>(other)];
        int64_t before = 0;
        for (int64_t r = 0; r < rank; ++r) before += sender.send_counts[static_cast<size_t>(r)];
        const int64_t count = sender.send_counts[static_cast<size_t>(rank)];
        ASSERT_EQ(part.receive_counts[static_cast<size_t>(other)], count);
        EXPECT_TRUE(at::equal(part.halo.slice(0, place, place + count),
                              sender.sent.slice(0, before, before + count) + sender.begin));
        place += count;
      }
      EXPECT_EQ(place, part.halo.numel());
    }
  }
}

}  // namespace
}  // namespace strata::trainer
