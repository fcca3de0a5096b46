// SPDX-License-Identifier: MIT
#include "trainer/data/graphs/metis_order.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>
#include <vector>

namespace strata::trainer {
namespace {

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

TEST(MetisOrder, CutsFewEdges) {
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
TEST(MetisOrder, StopRequestsWhileMetisWorksAreHandledAsUsual) {
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

TEST(MetisOrder, CountsInThirtyTwoBits) {
  EXPECT_TRUE(metis_can_count(100, 2147483547));
  EXPECT_FALSE(metis_can_count(100, 2147483548));
  EXPECT_FALSE(metis_can_count(111059956, 3231371744));  // ogbn-papers100M
}

}  // namespace
}  // namespace strata::trainer
