// SPDX-License-Identifier: MIT
#include "kernels/neighbor_aggregate/neighbor_graph.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <vector>

namespace strata::kernels {
namespace {

constexpr int64_t kMost = std::numeric_limits<int32_t>::max();

// Checks a list of indices and casts it to contiguous int64.
Tensor index_list(std::string_view name, const Tensor& list) {
  TORCH_CHECK_VALUE(
      (list.scalar_type() == at::kLong || list.scalar_type() == at::kInt) && list.dim() == 1 && list.is_cpu(),
      "NeighborGraph: ", name, " are ", list.scalar_type(), " ", list.sizes(), " on ", list.device(),
      ", expected Long or Int in one dimension on cpu");
  return list.to(at::kLong).contiguous();
}

void check_count(std::string_view name, int64_t count) {
  TORCH_CHECK_VALUE(count >= 0 && count <= kMost, "NeighborGraph: there are ", count, " ", name,
                    ", expected 0 to 2^31 - 1");
}

void check_range(std::string_view name, const Tensor& indices, int64_t count) {
  const int64_t* index = indices.const_data_ptr<int64_t>();
  for (int64_t edge = 0; edge < indices.numel(); ++edge) {
    TORCH_CHECK_VALUE(index[edge] >= 0 && index[edge] < count, "NeighborGraph: the ", name, " of edge ", edge, " is ",
                      index[edge], ", expected 0 to ", count - 1);
  }
}

template <class T>
Tensor to_tensor(const std::vector<T>& values) {
  const Tensor tensor = at::empty({static_cast<int64_t>(values.size())}, c10::CppTypeToScalarType<T>::value);
  std::copy(values.begin(), values.end(), tensor.mutable_data_ptr<T>());
  return tensor;
}

void cut_long_rows(Adjacency& adjacency) {
  const int64_t* offsets = adjacency.offsets.const_data_ptr<int64_t>();
  std::vector<int32_t> long_rows, first_pieces = {0}, piece_rows;
  std::vector<int64_t> piece_begins;
  for (int64_t row = 0; row < adjacency.rows(); ++row) {
    if (offsets[row + 1] - offsets[row] <= kLongRow) continue;
    long_rows.push_back(static_cast<int32_t>(row));
    for (int64_t begin = offsets[row]; begin < offsets[row + 1]; begin += kLongRow) {
      piece_rows.push_back(static_cast<int32_t>(row));
      piece_begins.push_back(begin);
    }
    first_pieces.push_back(static_cast<int32_t>(piece_rows.size()));
  }
  adjacency.long_rows = to_tensor(long_rows);
  adjacency.first_pieces = to_tensor(first_pieces);
  adjacency.piece_rows = to_tensor(piece_rows);
  adjacency.piece_begins = to_tensor(piece_begins);
  adjacency.pieces = static_cast<int64_t>(piece_rows.size());
}

// Returns the offsets [rows + 1] at which the edges of each row start.
Tensor offsets_of(const int64_t* row_of_edge, int64_t edges, int64_t rows) {
  const Tensor offsets = at::zeros({rows + 1}, at::kLong);
  int64_t* end = offsets.mutable_data_ptr<int64_t>() + 1;
  for (int64_t edge = 0; edge < edges; ++edge) ++end[row_of_edge[edge]];
  for (int64_t row = 1; row < rows; ++row) end[row] += end[row - 1];
  return offsets;
}

std::vector<int64_t> beginnings(const Tensor& offsets) {
  const int64_t* first = offsets.const_data_ptr<int64_t>();
  return {first, first + offsets.numel() - 1};
}

// `neighbors` is int64 in the order of the edges. The edges of a source keep this order in by_source.
NeighborGraph from_rows(Tensor offsets, const Tensor& neighbors, int64_t sources) {
  const int64_t targets = offsets.numel() - 1, edges = neighbors.numel();
  NeighborGraph graph{.targets = targets, .sources = sources, .by_target = {}, .by_source = {}, .edge_by_source = {}};
  graph.by_target.offsets = std::move(offsets);
  graph.by_target.neighbors = neighbors.to(at::kInt);
  graph.by_source.offsets = offsets_of(neighbors.const_data_ptr<int64_t>(), edges, sources);
  graph.by_source.neighbors = at::empty({edges}, at::kInt);
  graph.edge_by_source = at::empty({edges}, at::kInt);
  std::vector<int64_t> next = beginnings(graph.by_source.offsets);
  const int64_t* first = graph.by_target.offsets.const_data_ptr<int64_t>();
  const int64_t* source = neighbors.const_data_ptr<int64_t>();
  int32_t* target_of = graph.by_source.neighbors.mutable_data_ptr<int32_t>();
  int32_t* edge_of = graph.edge_by_source.mutable_data_ptr<int32_t>();
  for (int64_t target = 0; target < targets; ++target) {
    for (int64_t edge = first[target]; edge < first[target + 1]; ++edge) {
      const int64_t place = next[source[edge]]++;
      target_of[place] = static_cast<int32_t>(target);
      edge_of[place] = static_cast<int32_t>(edge);
    }
  }
  cut_long_rows(graph.by_target);
  cut_long_rows(graph.by_source);
  return graph;
}

}  // namespace

NeighborGraph NeighborGraph::to(c10::Device device, bool non_blocking) const {
  return with_each([&](const Tensor& tensor) { return tensor.to(device, tensor.scalar_type(), non_blocking); });
}

NeighborGraph NeighborGraph::with_each(const std::function<Tensor(const Tensor&)>& replaced) const {
  NeighborGraph result = *this;
  const auto replace = [&](Tensor& tensor) {
    if (tensor.defined()) tensor = replaced(tensor);
  };
  for (Adjacency* side : {&result.by_target, &result.by_source}) {
    for (Tensor* tensor : {&side->offsets, &side->neighbors, &side->long_rows, &side->first_pieces, &side->piece_rows,
                           &side->piece_begins}) {
      replace(*tensor);
    }
  }
  replace(result.edge_by_source);
  return result;
}

NeighborGraph NeighborGraph::from_edges(const Tensor& edge_sources, const Tensor& edge_targets, int64_t sources,
                                        int64_t targets, Tensor* order) {
  const Tensor from = index_list("edge_sources", edge_sources), to = index_list("edge_targets", edge_targets);
  const int64_t edges = from.numel();
  TORCH_CHECK_VALUE(to.numel() == edges, "NeighborGraph: there are ", edges, " edge_sources and ", to.numel(),
                    " edge_targets, expected as many");
  check_count("sources", sources);
  check_count("targets", targets);
  check_count("edges", edges);
  check_range("source", from, sources);
  check_range("target", to, targets);
  const int64_t* target = to.const_data_ptr<int64_t>();
  const Tensor offsets = offsets_of(target, edges, targets);
  std::vector<int64_t> next = beginnings(offsets);
  const Tensor edge_at = at::empty({edges}, at::kLong);
  int64_t* at_place = edge_at.mutable_data_ptr<int64_t>();
  for (int64_t edge = 0; edge < edges; ++edge) at_place[next[target[edge]]++] = edge;
  if (order != nullptr) *order = edge_at;
  return from_rows(offsets, from.index_select(0, edge_at), sources);
}

NeighborGraph NeighborGraph::from_csr(const Tensor& offsets, const Tensor& neighbors, int64_t sources) {
  const Tensor ends = index_list("offsets", offsets), from = index_list("neighbors", neighbors);
  const int64_t targets = ends.numel() - 1, edges = from.numel();
  const int64_t* end = ends.const_data_ptr<int64_t>();
  TORCH_CHECK_VALUE(targets >= 0 && end[0] == 0 && end[targets] == edges, "NeighborGraph: offsets are from ",
                    targets >= 0 ? end[0] : 0, " to ", targets >= 0 ? end[targets] : 0, ", expected from 0 to ", edges,
                    ", the number of neighbors");
  for (int64_t row = 0; row < targets; ++row) {
    TORCH_CHECK_VALUE(end[row] <= end[row + 1], "NeighborGraph: row ", row, " begins at ", end[row], " and ends at ",
                      end[row + 1]);
  }
  check_count("sources", sources);
  check_count("targets", targets);
  check_count("edges", edges);
  check_range("source", from, sources);
  return from_rows(ends, from, sources);
}

}  // namespace strata::kernels
