// SPDX-License-Identifier: MIT
// The loops of level aten on CPUs give the same bits on one thread and on three. Tests have one thread otherwise.
// ThreadSanitizer sees if one thread writes what another reads or writes, so tensors are large enough for three.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <vector>

#include "kernels/dropout/dropout.h"
#include "kernels/neighbor_aggregate/neighbor_aggregate.h"

namespace strata::kernels {
namespace {

using Tensors = std::vector<Tensor>;

Tensor leaf(const Tensor& values) { return values.detach().requires_grad_(); }

// Compares the result of `op` and the gradients of the leaves.
void expect_same_bits(const Tensors& leaves, const std::function<Tensor()>& op) {
  Tensor grad_y;
  const auto on_threads = [&](int count) {
    at::set_num_threads(count);
    Tensors results = {op()};
    if (!grad_y.defined()) grad_y = at::randn(results[0].sizes());
    for (const Tensor& gradient : torch::autograd::grad({results[0]}, leaves, {grad_y})) results.push_back(gradient);
    return results;
  };
  const Tensors alone = on_threads(1), together = on_threads(3);
  ASSERT_EQ(alone.size(), together.size());
  for (size_t i = 0; i < alone.size(); ++i) EXPECT_TRUE(at::equal(alone[i], together[i])) << i;
}

// One target has a fifth of all edges, so threads have different numbers of rows.
NeighborGraph skewed_graph(int64_t sources, int64_t targets, int64_t edges) {
  const Tensor from = at::randint(0, sources, {edges}, at::kLong), to = at::randint(0, targets, {edges}, at::kLong);
  to.slice(0, 0, edges / 5).fill_(targets / 3);
  return NeighborGraph::from_edges(from, to, sources, targets);
}

class LoopsOnThreads : public testing::Test {
 protected:
  LoopsOnThreads() { at::manual_seed(5); }
};

TEST_F(LoopsOnThreads, Dropout) {
  const Tensor x = leaf(at::randn({701, 301})), key = at::full({1}, 11, at::kLong);
  expect_same_bits({x}, [&] { return dropout(x, 0.3, key, 2, 40, Level::aten); });
}

TEST_F(LoopsOnThreads, NeighborAggregate) {
  const NeighborGraph graph = skewed_graph(3000, 2500, 40'000);
  const Tensor x = leaf(at::randn({3000, 32})), weight = leaf(at::rand({40'000}));
  for (const Reduction reduction : {Reduction::sum, Reduction::mean, Reduction::max}) {
    SCOPED_TRACE(static_cast<int>(reduction));
    expect_same_bits({x, weight}, [&] { return neighbor_aggregate(x, graph, weight, reduction, Level::aten); });
  }
}

TEST_F(LoopsOnThreads, NeighborAttention) {
  const int64_t heads = 8;
  const NeighborGraph graph = skewed_graph(3000, 2500, 110'000);
  const Tensor x = leaf(at::randn({3000, heads, 4}));
  const Tensor source_scores = leaf(at::randn({3000, heads})), target_scores = leaf(at::randn({2500, heads}));
  expect_same_bits({x, source_scores, target_scores},
                   [&] { return neighbor_attention(x, source_scores, target_scores, graph, 0.2, Level::aten); });
}

}  // namespace
}  // namespace strata::kernels
