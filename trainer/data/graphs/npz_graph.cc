// SPDX-License-Identifier: MIT
#include "trainer/data/graphs/npz_graph.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/repeat_interleave.h>

#include <algorithm>

#include "base/errors.h"
#include "trainer/data/graphs/npz_file.h"

namespace strata::trainer {
namespace {

[[noreturn]] void fail(const NpzFile& file, const std::string& what) {
  throw Error(ExitCode::data, file.path() + ": " + what);
}

constexpr int64_t kMostRows = int64_t{1} << 40;

struct CompressedRows {
  int64_t rows = 0, columns = 0;
  Tensor offsets, indices;
};

// Reads <name>_shape, <name>_indptr and <name>_indices.
CompressedRows read_rows(NpzFile& file, const std::string& name) {
  const Tensor shape = file.integers(name + "_shape");
  CompressedRows rows{.offsets = file.integers(name + "_indptr"), .indices = file.integers(name + "_indices")};
  if (shape.numel() != 2) fail(file, name + "_shape has " + std::to_string(shape.numel()) + " numbers; expected 2");
  rows.rows = shape[0].item<int64_t>(), rows.columns = shape[1].item<int64_t>();
  if (std::min(rows.rows, rows.columns) < 0 || std::max(rows.rows, rows.columns) > kMostRows) {
    fail(file, name + "_shape is " + std::to_string(rows.rows) + " x " + std::to_string(rows.columns) +
                   "; expected 0 to 2^40 of each");
  }
  if (rows.offsets.numel() != rows.rows + 1) {
    fail(file, name + "_indptr has " + std::to_string(rows.offsets.numel()) + " numbers; expected " +
                   std::to_string(rows.rows + 1) + ", one more than the rows of " + name + "_shape");
  }
  const int64_t* offset = rows.offsets.const_data_ptr<int64_t>();
  for (int64_t i = 0; i <= rows.rows; ++i) {
    const int64_t least = i == 0 ? 0 : offset[i - 1], most = i == 0 ? 0 : rows.indices.numel();
    if (offset[i] >= least && offset[i] <= most) continue;
    fail(file, name + "_indptr[" + std::to_string(i) + "] is " + std::to_string(offset[i]) + "; expected " +
                   std::to_string(least) + " to " + std::to_string(most));
  }
  if (offset[rows.rows] != rows.indices.numel()) {
    fail(file, name + "_indptr ends at " + std::to_string(offset[rows.rows]) + ", and " + name + "_indices has " +
                   std::to_string(rows.indices.numel()) + " numbers");
  }
  const int64_t* index = rows.indices.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < rows.indices.numel(); ++i) {
    if (index[i] >= 0 && index[i] < rows.columns) continue;
    fail(file, name + "_indices[" + std::to_string(i) + "] is " + std::to_string(index[i]) + ", which is not there; " +
                   name + "_shape says 0 to " + std::to_string(rows.columns - 1));
  }
  return rows;
}

void read_features(NpzFile& file, GraphData& graph) {
  int64_t rows = 0;
  std::string name;
  if (file.has("attr_matrix")) {
    graph.dense_features = file.reals("attr_matrix", 2);
    rows = graph.dense_features.size(0), graph.features = graph.dense_features.size(1), name = "attr_matrix";
  } else {
    const CompressedRows sparse = read_rows(file, "attr");
    graph.sparse_features = {sparse.offsets, sparse.indices, file.reals("attr_data")};
    rows = sparse.rows, graph.features = sparse.columns, name = "attr_shape";
    if (graph.sparse_features.values.numel() != sparse.indices.numel()) {
      fail(file, "attr_data has " + std::to_string(graph.sparse_features.values.numel()) + " values for the " +
                     std::to_string(sparse.indices.numel()) + " of attr_indices");
    }
  }
  if (rows != graph.nodes) {
    fail(file, name + " has features of " + std::to_string(rows) + " nodes, and adj_shape says " +
                   std::to_string(graph.nodes));
  }
}

}  // namespace

GraphData read_npz_graph(const std::string& path, bool undirected) {
  NpzFile file(path);
  GraphData graph{.name = path};
  const CompressedRows edges = read_rows(file, "adj");
  if (edges.rows != edges.columns || edges.rows == 0) {
    fail(file, "adj_shape is " + std::to_string(edges.rows) + " x " + std::to_string(edges.columns) +
                   "; expected a square of nodes");
  }
  graph.nodes = edges.rows;
  const Tensor sources =
      at::repeat_interleave(at::arange(graph.nodes), edges.offsets.diff(), {}, edges.indices.numel());
  set_edges(graph, sources, edges.indices, undirected);
  read_features(file, graph);
  graph.labels = file.integers("labels");
  if (graph.labels.numel() != graph.nodes) {
    fail(file, "labels has " + std::to_string(graph.labels.numel()) + " labels for the " + std::to_string(graph.nodes) +
                   " nodes of adj_shape");
  }
  graph.train = sorted_split(graph, "train", file.items("train", graph.nodes));
  graph.validation = sorted_split(graph, "validation", file.items("validation", graph.nodes));
  if (file.has("test")) graph.test = sorted_split(graph, "test", file.items("test", graph.nodes));
  return graph;
}

}  // namespace strata::trainer
