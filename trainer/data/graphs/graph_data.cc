// SPDX-License-Identifier: MIT
#include "trainer/data/graphs/graph_data.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/permutation.h"
#include "base/text/hex_digits.h"

namespace strata::trainer {
namespace {

constexpr int64_t kUnknownClass = -1;  // the label of nodes without a class in PyG's data sets

[[noreturn]] void fail(const GraphData& graph, const std::string& what) {
  throw Error(ExitCode::data, graph.name + ": " + what);
}

void check_finite(const GraphData& graph) {
  const Tensor& values = graph.is_sparse() ? graph.sparse_features.values : graph.dense_features;
  const float* value = values.const_data_ptr<float>();
  const float* const bad = std::find_if(value, value + values.numel(), [](float x) { return !std::isfinite(x); });
  const int64_t place = bad - value;
  if (place == values.numel()) return;
  int64_t node = 0, feature = 0;
  if (graph.is_sparse()) {
    const int64_t* offset = integers(graph.sparse_features.offsets);
    node = std::upper_bound(offset, offset + graph.nodes + 1, place) - offset - 1;
    feature = integers(graph.sparse_features.columns)[place];
  } else {
    node = place / graph.features, feature = place % graph.features;
  }
  fail(graph, "feature " + std::to_string(feature) + " of node " + std::to_string(node) + " is " +
                  (std::isnan(*bad) ? "nan" : "infinite") + "; expected a number");
}

using Split = std::pair<const char*, const Tensor*>;

void check_disjoint(const GraphData& graph, const Split& first, const Split& second) {
  if (!first.second->defined() || !second.second->defined()) return;
  const int64_t* a = integers(*first.second);
  const int64_t* b = integers(*second.second);
  std::vector<int64_t> both;
  std::set_intersection(a, a + first.second->numel(), b, b + second.second->numel(), std::back_inserter(both));
  if (both.empty()) return;
  const auto count = static_cast<int64_t>(both.size());
  fail(graph, std::to_string(count) + " " + graph.item() + (count == 1 ? " is" : "s are") + " in " + first.first +
                  " and in " + second.first + ", the first is " + graph.item() + " " + std::to_string(both[0]));
}

uint64_t hash_of(uint64_t hash, const Tensor& tensor) {
  if (!tensor.defined()) return mix(hash, 0);
  const char* bytes = static_cast<const char*>(tensor.const_data_ptr());
  const size_t count = tensor.nbytes();
  hash = mix(hash, count);
  for (size_t i = 0; i < count; i += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + i, std::min(sizeof word, count - i));
    hash = mix(hash, word);
  }
  return hash;
}

}  // namespace

void set_edges(GraphData& graph, const Tensor& sources, const Tensor& targets, bool undirected) {
  const int64_t* source = integers(sources);
  const int64_t* target = integers(targets);
  const auto each = [&](const auto& visit) {
    for (int64_t e = 0; e < sources.numel(); ++e) {
      if (source[e] == target[e]) continue;
      visit(source[e], target[e]);
      if (undirected) visit(target[e], source[e]);
    }
  };
  std::vector<int64_t> end(static_cast<size_t>(graph.nodes) + 1);
  each([&](int64_t, int64_t to) { ++end[static_cast<size_t>(to) + 1]; });
  for (size_t i = 1; i < end.size(); ++i) end[i] += end[i - 1];
  std::vector<int64_t> begin(end.begin(), end.end() - 1), from_nodes(static_cast<size_t>(end.back()));
  std::vector<int64_t> place = begin;
  each([&](int64_t from, int64_t to) { from_nodes[static_cast<size_t>(place[static_cast<size_t>(to)]++)] = from; });

  graph.offsets = at::zeros({graph.nodes + 1}, at::kLong);
  int64_t* offset = graph.offsets.mutable_data_ptr<int64_t>();
  int64_t kept = 0;
  for (int64_t node = 0; node < graph.nodes; ++node) {
    const auto row = from_nodes.begin() + begin[static_cast<size_t>(node)];
    const auto row_end = from_nodes.begin() + end[static_cast<size_t>(node) + 1];
    std::sort(row, row_end);
    const auto unique_end = std::unique(row, row_end);
    kept += std::copy(row, unique_end, from_nodes.begin() + kept) - (from_nodes.begin() + kept);
    offset[node + 1] = kept;
  }
  graph.neighbors = at::empty({kept}, at::kLong);
  std::copy_n(from_nodes.begin(), kept, graph.neighbors.mutable_data_ptr<int64_t>());
}

Tensor sorted_split(const GraphData& graph, const std::string& split, const Tensor& items) {
  if (items.numel() == 0) fail(graph, split + " is empty; expected at least one " + graph.item());
  const Tensor sorted = items.clone();
  int64_t* item = sorted.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < items.numel(); ++i) {
    if (item[i] >= 0 && item[i] < graph.items()) continue;
    fail(graph, split + "[" + std::to_string(i) + "] is " + graph.item() + " " + std::to_string(item[i]) +
                    ", which is not there; there are " + std::to_string(graph.items()) + " " + graph.item() + "s");
  }
  std::sort(item, item + items.numel());
  const int64_t* twice = std::adjacent_find(item, item + items.numel());
  if (twice != item + items.numel())
    fail(graph, split + " has " + graph.item() + " " + std::to_string(*twice) + " twice");
  return sorted;
}

void check_graph(const GraphData& graph, int64_t classes) {
  check_finite(graph);
  const std::array<Split, 3> splits = {
      {{"train", &graph.train}, {"validation", &graph.validation}, {"test", &graph.test}}};
  std::vector<bool> is_in_split(static_cast<size_t>(graph.items()));
  for (const auto& [name, items] : splits) {
    if (!items->defined()) continue;
    std::for_each_n(integers(*items), items->numel(), [&](int64_t i) { is_in_split[static_cast<size_t>(i)] = true; });
  }
  const int64_t* label = integers(graph.labels);
  for (int64_t i = 0; i < graph.items(); ++i) {
    const bool in_split = is_in_split[static_cast<size_t>(i)];
    if ((label[i] >= 0 && label[i] < classes) || (label[i] == kUnknownClass && !in_split)) continue;
    const std::string place = graph.labels_file.empty() ? graph.name : graph.labels_file + ":" + std::to_string(i + 1);
    throw Error(ExitCode::data, place + ": the label of " + graph.item() + " " + std::to_string(i) + " is " +
                                    std::to_string(label[i]) + ", outside of the " + std::to_string(classes) +
                                    " classes of the model (model.classes)");
  }
  for (size_t i = 0; i < splits.size(); ++i) {
    for (size_t j = 0; j < i; ++j) check_disjoint(graph, splits[j], splits[i]);
  }
}

std::string fingerprint_of(const GraphData& graph) {
  uint64_t hash = mix(static_cast<uint64_t>(graph.nodes), static_cast<uint64_t>(graph.features));
  for (const Tensor& part : {graph.offsets, graph.neighbors, graph.dense_features, graph.sparse_features.offsets,
                             graph.sparse_features.columns, graph.sparse_features.values, graph.labels, graph.train,
                             graph.validation, graph.test}) {
    hash = hash_of(hash, part);
  }
  if (graph.first_nodes.defined()) hash = hash_of(hash, graph.first_nodes);
  return hex_digits(hash);
}

}  // namespace strata::trainer
