// SPDX-License-Identifier: MIT
#include "trainer/data/graphs/synthetic_graph.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/permutation.h"

namespace strata::trainer {
namespace {

constexpr int64_t kFeaturesOfNode = 8;

enum Stream : uint64_t { kSource = 1, kTarget, kFeature, kLabel };

// Random numbers that are functions of seed, stream and index.
class IndexedDraws {
 public:
  explicit IndexedDraws(uint64_t seed) : seed_(seed) {}

  // Returns a number in [0, 1).
  double uniform(Stream stream, int64_t index) const {
    return static_cast<double>(mix(mix(seed_, stream), static_cast<uint64_t>(index)) >> 11) * 0x1p-53;
  }
  int64_t below(int64_t bound, Stream stream, int64_t index) const { return scaled(uniform(stream, index), bound); }
  // Returns `share` of `bound`, rounded down. `share` is in [0, 1).
  static int64_t scaled(double share, int64_t bound) {
    return std::min(static_cast<int64_t>(share * static_cast<double>(bound)), bound - 1);
  }

 private:
  const uint64_t seed_;
};

void add_edges(const SyntheticGraph& size, const IndexedDraws& draws, GraphData& graph) {
  std::vector<int64_t> target(static_cast<size_t>(size.edges));
  graph.offsets = at::zeros({size.nodes + 1}, at::kLong);
  int64_t* offset = graph.offsets.mutable_data_ptr<int64_t>();
  for (int64_t e = 0; e < size.edges; ++e) {
    target[static_cast<size_t>(e)] = draws.below(size.nodes, kTarget, e);
    ++offset[target[static_cast<size_t>(e)] + 1];
  }
  for (int64_t node = 0; node < size.nodes; ++node) offset[node + 1] += offset[node];
  graph.neighbors = at::empty({size.edges}, at::kLong);
  int64_t* neighbor = graph.neighbors.mutable_data_ptr<int64_t>();
  std::vector<int64_t> place(offset, offset + size.nodes);
  for (int64_t e = 0; e < size.edges; ++e) {
    const double share = draws.uniform(kSource, e);
    neighbor[place[static_cast<size_t>(target[static_cast<size_t>(e)])]++] =
        IndexedDraws::scaled(share * share * share, size.nodes);
  }
  for (int64_t node = 0; node < size.nodes; ++node) std::sort(neighbor + offset[node], neighbor + offset[node + 1]);
}

void add_features(const SyntheticGraph& size, const IndexedDraws& draws, GraphData& graph) {
  if (size.sparse_features) {
    const int64_t entries = size.nodes * kFeaturesOfNode;
    graph.sparse_features.offsets = at::arange(0, entries + 1, kFeaturesOfNode, at::kLong);
    graph.sparse_features.columns = at::empty({entries}, at::kLong);
    int64_t* column = graph.sparse_features.columns.mutable_data_ptr<int64_t>();
    for (int64_t i = 0; i < entries; ++i) column[i] = draws.below(size.features, kFeature, i);
    graph.sparse_features.values = at::full({entries}, 1 / std::sqrt(static_cast<double>(kFeaturesOfNode)), at::kFloat);
    return;
  }
  graph.dense_features = at::empty({size.nodes, size.features}, at::kFloat);
  float* feature = graph.dense_features.mutable_data_ptr<float>();
  for (int64_t i = 0; i < graph.dense_features.numel(); ++i) {
    feature[i] = static_cast<float>(2 * draws.uniform(kFeature, i) - 1);
  }
}

// Every fifth node is for validation.
void split_nodes(GraphData& graph) {
  std::vector<int64_t> train, validation;
  for (int64_t i = 0; i < graph.nodes; ++i) (i % 5 == 4 ? validation : train).push_back(i);
  const auto tensor_of = [](const std::vector<int64_t>& nodes) {
    const Tensor tensor = at::empty({static_cast<int64_t>(nodes.size())}, at::kLong);
    std::copy(nodes.begin(), nodes.end(), tensor.mutable_data_ptr<int64_t>());
    return tensor;
  };
  graph.train = tensor_of(train), graph.validation = tensor_of(validation);
}

}  // namespace

GraphData make_graph(const SyntheticGraph& size) {
  const IndexedDraws draws(size.seed);
  GraphData graph{.name = "the synthetic graph", .nodes = size.nodes, .features = size.features};
  add_edges(size, draws, graph);
  add_features(size, draws, graph);
  graph.labels = at::empty({size.nodes}, at::kLong);
  int64_t* label = graph.labels.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < size.nodes; ++i) label[i] = draws.below(size.classes, kLabel, i);
  split_nodes(graph);
  return graph;
}

}  // namespace strata::trainer
