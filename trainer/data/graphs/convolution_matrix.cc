// SPDX-License-Identifier: MIT
#include "trainer/data/graphs/convolution_matrix.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <cmath>

namespace strata::trainer {

SparseRows convolution_matrix(const modules::GraphNetworkConfig& model, const GraphData& graph) {
  SparseRows rows{.offsets = graph.offsets, .columns = graph.neighbors, .values = {}};
  if (!model.wants_self_loops()) return rows;
  rows.offsets = at::empty_like(graph.offsets);
  rows.columns = at::empty({graph.edges() + graph.nodes}, at::kLong);
  const int64_t* before = graph.offsets.const_data_ptr<int64_t>();
  const int64_t* neighbor = graph.neighbors.const_data_ptr<int64_t>();
  int64_t* offset = rows.offsets.mutable_data_ptr<int64_t>();
  int64_t* column = rows.columns.mutable_data_ptr<int64_t>();
  for (int64_t node = 0; node <= graph.nodes; ++node) offset[node] = before[node] + node;
  for (int64_t node = 0; node < graph.nodes; ++node) {
    column[offset[node]] = node;
    std::copy(neighbor + before[node], neighbor + before[node + 1], column + offset[node] + 1);
  }
  if (model.convolution != modules::GraphConvolutionKind::gcn) return rows;
  rows.values = at::empty({rows.columns.size(0)}, at::kFloat);
  float* value = rows.values.mutable_data_ptr<float>();
  const auto root = [&](int64_t node) { return 1 / std::sqrt(static_cast<double>(offset[node + 1] - offset[node])); };
  for (int64_t node = 0; node < graph.nodes; ++node) {
    for (int64_t e = offset[node]; e < offset[node + 1]; ++e) {
      value[e] = static_cast<float>(root(node) * root(column[e]));
    }
  }
  return rows;
}

}  // namespace strata::trainer
