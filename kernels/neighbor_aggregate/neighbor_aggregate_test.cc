// SPDX-License-Identifier: MIT
// Checks the definition, which every level is compared with, against plain loops. So definition and level cannot have
// the same error.
#include "kernels/neighbor_aggregate/neighbor_aggregate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/proof/plain_tensor.h"

namespace strata::kernels {
namespace {

// Four sources and three targets. The last target has no edges; the first has one source twice.
struct PlainGraph {
  std::vector<int64_t> sources = {1, 3, 1, 0, 2}, targets = {0, 0, 0, 1, 1};
  NeighborGraph graph =
      NeighborGraph::from_edges(tensor(Plain(sources.begin(), sources.end()), {5}).to(at::kLong),
                                tensor(Plain(targets.begin(), targets.end()), {5}).to(at::kLong), 4, 3);
};

TEST(Formula, NeighborAggregate) {
  const PlainGraph edges;
  const int64_t width = 2;
  const Plain x = ramp(4 * width), weight = ramp(5, 0.9);
  Plain sum(3 * width), mean(3 * width), largest(3 * width, -INFINITY);
  const Plain degree = {3, 2, 0};
  for (size_t e = 0; e < edges.sources.size(); ++e) {
    for (int64_t k = 0; k < width; ++k) {
      const int64_t at = edges.targets[e] * width + k;
      const double message = weight[e] * x[edges.sources[e] * width + k];
      sum[at] += message;
      mean[at] += message / degree[edges.targets[e]];
      largest[at] = std::max(largest[at], message);
    }
  }
  for (int64_t k = 0; k < width; ++k) largest[2 * width + k] = 0;
  const Tensor features = tensor(x, {4, width}), factors = tensor(weight, {5});
  expect_equal(neighbor_aggregate(features, edges.graph, factors, Reduction::sum, kFormulaLevel), sum);
  expect_equal(neighbor_aggregate(features, edges.graph, factors, Reduction::mean, kFormulaLevel), mean);
  expect_equal(neighbor_aggregate(features, edges.graph, factors, Reduction::max, kFormulaLevel), largest);
}

TEST(Formula, NeighborAttention) {
  const PlainGraph edges;
  const int64_t heads = 2, width = 3;
  const Plain x = ramp(4 * heads * width), from = ramp(4 * heads, 0.2), to = ramp(3 * heads, 0.7);
  const auto score = [&](size_t e, int64_t h) {
    const double sum = from[edges.sources[e] * heads + h] + to[edges.targets[e] * heads + h];
    return sum > 0 ? sum : 0.2 * sum;
  };
  Plain total(3 * heads), expected(3 * heads * width);
  for (size_t e = 0; e < edges.sources.size(); ++e) {
    for (int64_t h = 0; h < heads; ++h) total[edges.targets[e] * heads + h] += std::exp(score(e, h));
  }
  for (size_t e = 0; e < edges.sources.size(); ++e) {
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t source = edges.sources[e] * heads + h, target = edges.targets[e] * heads + h;
      const double share = std::exp(score(e, h)) / total[target];
      for (int64_t k = 0; k < width; ++k) expected[target * width + k] += share * x[source * width + k];
    }
  }
  expect_equal(neighbor_attention(tensor(x, {4, heads, width}), tensor(from, {4, heads}), tensor(to, {3, heads}),
                                  edges.graph, 0.2, kFormulaLevel),
               expected);
}

}  // namespace
}  // namespace strata::kernels
