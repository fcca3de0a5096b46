// SPDX-License-Identifier: MIT
#include "trainer/data/graphs/graph_partition.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <tuple>
#include <utility>

namespace strata::trainer {
namespace {

Tensor tensor_of(const std::vector<int64_t>& values) {
  const Tensor tensor = at::empty({static_cast<int64_t>(values.size())}, at::kLong);
  std::copy(values.begin(), values.end(), tensor.mutable_data_ptr<int64_t>());
  return tensor;
}

Tensor select(const Tensor& values, const Tensor& rows) { return values.index_select(0, rows); }

// Returns the nodes outside of [begin, end) that its rows need, ascending.
std::vector<int64_t> halo_of(const SparseRows& rows, int64_t begin, int64_t end) {
  std::vector<int64_t> halo;
  const int64_t* column = integers(rows.columns);
  for (int64_t e = integers(rows.offsets)[begin]; e < integers(rows.offsets)[end]; ++e) {
    if (column[e] < begin || column[e] >= end) halo.push_back(column[e]);
  }
  std::sort(halo.begin(), halo.end());
  halo.erase(std::unique(halo.begin(), halo.end()), halo.end());
  return halo;
}

// Returns the range of places in an ascending list whose values are in [begin, end).
std::pair<int64_t, int64_t> between(const std::vector<int64_t>& list, int64_t begin, int64_t end) {
  return {std::lower_bound(list.begin(), list.end(), begin) - list.begin(),
          std::lower_bound(list.begin(), list.end(), end) - list.begin()};
}

}  // namespace

GraphOrder order_of_file(const GraphData& graph) {
  GraphOrder order;
  const int64_t parts = std::min(GraphOrder::kParts, graph.nodes);
  for (int64_t part = 0; part <= parts; ++part) order.offsets.push_back(graph.nodes * part / parts);
  return order;
}

GraphData reordered(const GraphData& graph, const GraphOrder& order) {
  const Tensor& nodes = order.nodes;
  if (!nodes.defined()) return graph;
  GraphData result = graph;
  const Tensor place_of = at::empty_like(nodes);  // new place of each node of the file
  place_of.index_copy_(0, nodes, at::arange(graph.nodes, at::kLong));
  const SparseRows rows = rows_of({graph.offsets, graph.neighbors, {}}, nodes);
  result.offsets = rows.offsets, result.neighbors = select(place_of, rows.columns);
  if (graph.is_sparse()) {
    result.sparse_features = rows_of(graph.sparse_features, nodes);
  } else {
    result.dense_features = select(graph.dense_features, nodes);
  }
  result.labels = select(graph.labels, nodes);
  for (Tensor* split : {&result.train, &result.validation, &result.test}) {
    if (split->defined()) *split = std::get<0>(select(place_of, *split).sort());
  }
  return result;
}

std::vector<int64_t> ranges_of_ranks(const GraphOrder& order, int64_t ranks) {
  const auto parts = static_cast<int64_t>(order.offsets.size()) - 1;
  std::vector<int64_t> ranges;
  for (int64_t rank = 0; rank <= ranks; ++rank) {
    ranges.push_back(parts >= ranks ? order.offsets[static_cast<size_t>(parts * rank / ranks)]
                                    : order.offsets.back() * rank / ranks);
  }
  return ranges;
}

SparseRows rows_of(const SparseRows& rows, const Tensor& nodes) {
  const int64_t count = nodes.numel();
  const int64_t* before = integers(rows.offsets);
  std::vector<int64_t> offsets = {0}, places;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = integers(nodes)[i];
    for (int64_t e = before[row]; e < before[row + 1]; ++e) places.push_back(e);
    offsets.push_back(static_cast<int64_t>(places.size()));
  }
  const Tensor place = tensor_of(places);
  return {tensor_of(offsets), select(rows.columns, place),
          rows.values.defined() ? select(rows.values, place) : Tensor()};
}

SparseRows rows_between(const SparseRows& rows, int64_t begin, int64_t end) {
  const int64_t first = integers(rows.offsets)[begin], last = integers(rows.offsets)[end];
  return {rows.offsets.slice(0, begin, end + 1) - first, rows.columns.slice(0, first, last).clone(),
          rows.values.defined() ? rows.values.slice(0, first, last).clone() : Tensor()};
}

GraphPart part_of(const SparseRows& rows, const std::vector<int64_t>& ranges, int64_t rank) {
  const auto range = [&](int64_t owner) {
    return std::pair(ranges[static_cast<size_t>(owner)], ranges[static_cast<size_t>(owner) + 1]);
  };
  GraphPart part;
  std::tie(part.begin, part.end) = range(rank);
  const std::vector<int64_t> halo = halo_of(rows, part.begin, part.end);
  std::vector<int64_t> sent;
  for (int64_t other = 0; other + 1 < static_cast<int64_t>(ranges.size()); ++other) {
    const auto [begin, end] = range(other);
    const auto [first, last] = between(halo, begin, end);
    part.receive_counts.push_back(last - first);
    const std::vector<int64_t> wanted = halo_of(rows, begin, end);
    const auto [first_mine, last_mine] = between(wanted, part.begin, part.end);
    part.send_counts.push_back(last_mine - first_mine);
    for (int64_t i = first_mine; i < last_mine; ++i) sent.push_back(wanted[static_cast<size_t>(i)] - part.begin);
  }
  part.halo = tensor_of(halo);
  part.sent = tensor_of(sent);

  part.rows = rows_between(rows, part.begin, part.end);
  int64_t* column = part.rows.columns.mutable_data_ptr<int64_t>();
  for (int64_t e = 0; e < part.rows.columns.numel(); ++e) {
    const bool is_own = column[e] >= part.begin && column[e] < part.end;
    column[e] = is_own ? column[e] - part.begin
                       : part.nodes() + (std::lower_bound(halo.begin(), halo.end(), column[e]) - halo.begin());
  }
  return part;
}

}  // namespace strata::trainer
