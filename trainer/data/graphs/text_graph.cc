// SPDX-License-Identifier: MIT
#include "trainer/data/graphs/text_graph.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/errors.h"
#include "base/text/joined.h"
#include "base/text/printable.h"
#include "trainer/data/graphs/number_file.h"
#include "trainer/data/graphs/sparse_features.h"

namespace strata::trainer {
namespace {

std::string at_line(const std::string& path, int64_t index) { return path + ":" + std::to_string(index + 1) + ": "; }

// The number of nodes stands nowhere. It is the number of lines of the features, or of the labels if features are
// sparse.
std::string lines_of_nodes(const TextGraphFiles& files) {
  return ", the lines of " + (files.sparse_columns > 0 ? files.labels : files.features);
}

[[noreturn]] void fail(const std::string& message) { throw Error(ExitCode::data, message); }

// Reads the splits of items, none of which may occur twice.
class Splits {
 public:
  explicit Splits(const GraphData& graph) : graph_(graph), places_(static_cast<size_t>(graph.items())) {}

  Tensor read(const std::string& path) {
    const Tensor items = read_integers(path, 1);
    if (items.numel() == 0) fail(path + ": is empty; expected at least one " + graph_.item());
    files_.push_back(path);
    for (int64_t i = 0; i < items.numel(); ++i) {
      const int64_t item = items.const_data_ptr<int64_t>()[i];
      const std::string name = graph_.item() + " " + std::to_string(item);
      if (item < 0 || item >= graph_.items()) {
        fail(at_line(path, i) + name + " is not there; there are " + std::to_string(graph_.items()) + " " +
             graph_.item() + "s");
      }
      Place& place = places_[static_cast<size_t>(item)];
      if (place.line > 0) {
        fail(at_line(path, i) + name + " is there already, at " + files_[place.file] + ":" +
             std::to_string(place.line));
      }
      place = {files_.size() - 1, i + 1};
    }
    return sorted_split(graph_, path, items.flatten());
  }

 private:
  struct Place {
    size_t file = 0;
    int64_t line = 0;  // counted from 1; 0 if in no split yet
  };
  const GraphData& graph_;
  std::vector<std::string> files_;
  std::vector<Place> places_;  // place of each item
};

// Checks the labels of the items and reads their splits.
void read_items(GraphData& graph, const TextGraphFiles& files) {
  if (graph.labels.numel() != graph.items()) {
    fail(files.labels + ": has " + std::to_string(graph.labels.numel()) + " labels for " +
         std::to_string(graph.items()) + " " + graph.item() + "s" +
         (graph.first_nodes.defined() ? "" : lines_of_nodes(files)));
  }
  Splits splits(graph);
  graph.train = splits.read(files.train);
  graph.validation = splits.read(files.validation);
  if (!files.test.empty()) graph.test = splits.read(files.test);
}

// The first node and the first edge of each graph in files with many graphs, and the totals at the end.
struct GraphSizes {
  std::vector<int64_t> first_nodes, first_edges;

  int64_t graphs() const { return static_cast<int64_t>(first_nodes.size()) - 1; }
};

// Returns the cumulative sums of the counts in a file, whose total must be `all`.
std::vector<int64_t> sums_of(const std::string& path, const Tensor& counts, int64_t least, int64_t all,
                             const std::string& what) {
  std::vector<int64_t> sums = {0};
  for (int64_t i = 0; i < counts.numel(); ++i) {
    const int64_t count = counts.const_data_ptr<int64_t>()[i];
    if (count < least || count > all - sums.back()) {
      fail(at_line(path, i) + "graph " + std::to_string(i) + " has " + std::to_string(count) + " " + what +
           "; expected " + std::to_string(least) + " to " + std::to_string(all - sums.back()) + ", of " +
           std::to_string(all) + " that are there");
    }
    sums.push_back(sums.back() + count);
  }
  if (sums.back() != all) {
    fail(path + ": says that there are " + std::to_string(sums.back()) + " " + what + ", and " + std::to_string(all) +
         " are there");
  }
  return sums;
}

// Checks the nodes of all edges, which count from the start of their graph, and adds the graph's first node to them.
void check_edges(const TextGraphFiles& files, const Tensor& edges, const GraphSizes& sizes) {
  int64_t* node = edges.mutable_data_ptr<int64_t>();
  for (int64_t graph = 0; graph < sizes.graphs(); ++graph) {
    const auto i = static_cast<size_t>(graph);
    const int64_t first = sizes.first_nodes[i], nodes = sizes.first_nodes[i + 1] - first;
    for (int64_t place = 2 * sizes.first_edges[i]; place < 2 * sizes.first_edges[i + 1]; ++place) {
      if (node[place] < 0 || node[place] >= nodes) {
        const std::string there = "there are " + std::to_string(nodes) + " nodes";
        fail(at_line(files.edges, place / 2) + "node " + std::to_string(node[place]) + " is not there; " +
             (sizes.graphs() == 1 ? there + lines_of_nodes(files) : "in graph " + std::to_string(graph) + " " + there));
      }
      node[place] += first;
    }
  }
}

// Sets the nodes and their features.
void read_features(GraphData& graph, const TextGraphFiles& files) {
  if (files.sparse_columns == 0) {
    graph.dense_features = read_reals(files.features, 0);
    graph.nodes = graph.dense_features.size(0), graph.features = graph.dense_features.size(1);
    return;
  }
  graph.nodes = graph.labels.numel(), graph.features = files.sparse_columns;
  graph.sparse_features = read_sparse_features(files.features, graph.nodes, lines_of_nodes(files), graph.features);
}

// sizes_of(nodes, edges) returns how nodes and edges are distributed over graphs.
template <class SizesOf>
GraphData read_files(const TextGraphFiles& files, bool undirected, const SizesOf& sizes_of) {
  GraphData graph{.name = files.edges, .features_file = files.features, .labels_file = files.labels};
  graph.labels = read_integers(files.labels, 1).flatten();
  read_features(graph, files);
  const Tensor edges = read_integers(files.edges, 2);
  const GraphSizes sizes = sizes_of(graph.nodes, edges.size(0));
  check_edges(files, edges, sizes);
  set_edges(graph, edges.select(1, 0).contiguous(), edges.select(1, 1).contiguous(), undirected);
  return graph;
}

std::string only_split(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code error;
  std::filesystem::directory_iterator entries(folder, error);
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    std::error_code none;  // what cannot be examined is no split
    if (entries->is_directory(none)) found.push_back(entries->path().filename());
  }
  if (error) fail(folder + ": cannot be listed: " + error.message() + "; expected the splits of a data set of OGB");
  if (found.size() == 1) return found[0];
  std::sort(found.begin(), found.end());
  const std::string names = joined(found, ", ", [](const std::string& name) { return printable(name); });
  fail(folder + ": has " + (found.empty() ? "no folder of a split" : "several splits (" + names + ")") +
       "; data.split says which one to take");
}

// A folder of OGB, whose labels belong to items of this kind.
class OgbFolder {
 public:
  OgbFolder(const std::string& folder, const std::string& split, const std::string& item) : raw_(folder + "/raw/") {
    const std::string splits = folder + "/split";
    const std::string split_folder = splits + "/" + (split.empty() ? only_split(splits) : split) + "/";
    files = {.edges = raw_ + "edge.csv.gz",
             .features = raw_ + "node-feat.csv.gz",
             .labels = raw_ + item + "-label.csv.gz",
             .train = split_folder + "train.csv.gz",
             .validation = split_folder + "valid.csv.gz",
             .test = split_folder + "test.csv.gz"};
  }

  GraphSizes sizes(int64_t nodes, int64_t edges) const {
    const std::string node_path = raw_ + "num-node-list.csv.gz", edge_path = raw_ + "num-edge-list.csv.gz";
    const Tensor node_counts = read_integers(node_path, 1), edge_counts = read_integers(edge_path, 1);
    if (node_counts.numel() != edge_counts.numel()) {
      fail(edge_path + ": has the counts of " + std::to_string(edge_counts.numel()) + " graphs, and " + node_path +
           " of " + std::to_string(node_counts.numel()));
    }
    return {sums_of(node_path, node_counts, /*least=*/1, nodes, "nodes"),
            sums_of(edge_path, edge_counts, /*least=*/0, edges, "edges")};
  }

  TextGraphFiles files;

 private:
  std::string raw_;
};

}  // namespace

GraphData read_text_graph(const TextGraphFiles& files, bool undirected) {
  const auto one_graph = [](int64_t nodes, int64_t edges) { return GraphSizes{{0, nodes}, {0, edges}}; };
  GraphData graph = read_files(files, undirected, one_graph);
  read_items(graph, files);
  return graph;
}

GraphData read_ogb_graph(const std::string& folder, const std::string& split, bool undirected) {
  const OgbFolder ogb(folder, split, "node");
  const auto one_graph = [&](int64_t nodes, int64_t edges) {
    const GraphSizes sizes = ogb.sizes(nodes, edges);
    if (sizes.graphs() == 1) return sizes;
    fail(folder + ": has " + std::to_string(sizes.graphs()) + " graphs; expected one, whose nodes are classified " +
         "(data.type: ogb_graphs is for many)");
  };
  GraphData graph = read_files(ogb.files, undirected, one_graph);
  read_items(graph, ogb.files);
  return graph;
}

GraphData read_ogb_graphs(const std::string& folder, const std::string& split, bool undirected) {
  const OgbFolder ogb(folder, split, "graph");
  GraphSizes sizes;
  GraphData graphs = read_files(ogb.files, undirected, [&](int64_t nodes, int64_t edges) {
    sizes = ogb.sizes(nodes, edges);
    return sizes;
  });
  graphs.first_nodes = at::empty({sizes.graphs() + 1}, at::kLong);
  std::copy(sizes.first_nodes.begin(), sizes.first_nodes.end(), graphs.first_nodes.mutable_data_ptr<int64_t>());
  read_items(graphs, ogb.files);
  return graphs;
}

}  // namespace strata::trainer
