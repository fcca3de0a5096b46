// SPDX-License-Identifier: MIT
#include "trainer/data/graphs/graph_partition.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <set>
#include <thread>
#include <vector>

#include "trainer/data/graphs/synthetic_graph.h"

namespace strata::trainer {
namespace {

std::vector<int64_t> list(const Tensor& tensor) {
  return {tensor.const_data_ptr<int64_t>(), tensor.const_data_ptr<int64_t>() + tensor.numel()};
}

GraphData random_graph(bool sparse) {
  return make_graph({.nodes = 500, .edges = 3000, .features = 9, .classes = 5, .sparse_features = sparse, .seed = 1});
}

// Returns a square of nodes, each with edges to its four neighbors, numbered at random.
GraphData square(int64_t side) {
  GraphData graph{.name = "square", .nodes = side * side, .features = 1};
  const auto node = [&](int64_t row, int64_t column) { return (row * side + column) * 7 % graph.nodes; };
  std::vector<int64_t> sources, targets;
  for (int64_t row = 0; row < side; ++row) {
    for (int64_t column = 0; column < side; ++column) {
      if (row + 1 < side) sources.push_back(node(row, column)), targets.push_back(node(row + 1, column));
      if (column + 1 < side) sources.push_back(node(row, column)), targets.push_back(node(row, column + 1));
    }
  }
  set_edges(graph, at::tensor(sources, at::kLong), at::tensor(targets, at::kLong), /*undirected=*/true);
  graph.dense_features = at::zeros({graph.nodes, 1});
  graph.labels = at::zeros({graph.nodes}, at::kLong);
  graph.train = at::arange(1, graph.nodes, at::kLong), graph.validation = at::zeros({1}, at::kLong);
  return graph;
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

TEST(GraphPartition, MetisCutsFewEdges) {
  const GraphData graph = square(48);
  const GraphOrder order = order_by_metis(graph);
  const GraphData sorted = reordered(graph, order);
  for (const int64_t ranks : {2, 4}) {
    const std::vector<int64_t> ranges = ranges_of_ranks(order, ranks);
    int64_t halo = 0;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const GraphPart part = part_of({sorted.offsets, sorted.neighbors, {}}, ranges, rank);
      EXPECT_NEAR(static_cast<double>(part.nodes()), 48.0 * 48 / static_cast<double>(ranks), 100);
      halo += part.halo.numel();
    }
    // A cut by straight lines would give 96 and 192. In the order of the numbers, every node has neighbors on other
    // ranks.
    EXPECT_LT(halo, ranks == 2 ? 150 : 300);
  }
}

// Returns whether this process has a child that works.
bool has_child() {
  siginfo_t ended{};
  return waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == 0;
}

volatile std::sig_atomic_t times_asked_to_stop = 0;

// METIS ends its work when it gets a SIGTERM. Stop requests that come then must neither end the run nor be lost, and
// those of a terminal come to the whole group of processes.
TEST(GraphPartition, StopRequestsWhileMetisWorksAreHandledAsUsual) {
  struct sigaction ours {};
  ours.sa_handler = [](int) { times_asked_to_stop = times_asked_to_stop + 1; };
  ours.sa_flags = SA_RESTART;
  struct sigaction before {};
  const GraphData graph = square(150);  // keeps METIS busy for 0.1 s
  const GraphOrder undisturbed = order_by_metis(graph);
  const pid_t group = getpgrp();
  ASSERT_TRUE(group == getpid() || setpgid(0, 0) == 0);
  ASSERT_EQ(sigaction(SIGTERM, &ours, &before), 0);
  bool came_in_time = false;
  for (int attempt = 0; attempt < 100 && !came_in_time && !HasFailure(); ++attempt) {
    times_asked_to_stop = 0;
    int sent = 0;
    std::atomic<bool> is_over = false;
    std::thread sender([&] {
      while (!has_child() && !is_over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      for (; sent < 2 && !is_over; ++sent) kill(0, SIGTERM);
      came_in_time = sent == 2 && has_child();
    });
    GraphOrder order;
    EXPECT_NO_THROW(order = order_by_metis(graph));
    is_over = true;
    sender.join();
    EXPECT_EQ(times_asked_to_stop > 0, sent > 0);
    EXPECT_TRUE(order.nodes.defined() && at::equal(order.nodes, undisturbed.nodes));
  }
  EXPECT_TRUE(came_in_time);
  struct sigaction after {};
  ASSERT_EQ(sigaction(SIGTERM, &before, &after), 0);
  EXPECT_EQ(after.sa_handler, ours.sa_handler);
  EXPECT_EQ(after.sa_flags & (SA_RESTART | SA_RESETHAND), SA_RESTART);
  EXPECT_TRUE(group == getpid() || setpgid(0, group) == 0);
}

TEST(GraphPartition, MetisCountsInThirtyTwoBits) {
  EXPECT_TRUE(metis_can_count(100, 2147483547));
  EXPECT_FALSE(metis_can_count(100, 2147483548));
  EXPECT_FALSE(metis_can_count(111059956, 3231371744));  // ogbn-papers100M
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
