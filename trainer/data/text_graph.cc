// SPDX-License-Identifier: MIT
#include "trainer/data/text_graph.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "configs/errors.h"
#include "trainer/data/number_file.h"

namespace strata::trainer {
namespace {

std::string text(int64_t number) { return std::to_string(number); }

// Every number of the table is a node.
void check_nodes(const std::string& path, const Tensor& table, int64_t nodes) {
  const int64_t* number = table.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < table.numel(); ++i) {
    if (number[i] >= 0 && number[i] < nodes) continue;
    throw Error(ExitCode::data, path + ":" + text(i / table.size(1) + 1) + ": node " + text(number[i]) +
                                    " is not there; there are " + text(nodes) + " nodes");
  }
}

Tensor read_split(const GraphData& graph, const std::string& path) {
  const Tensor nodes = read_integers(path, 1);
  check_nodes(path, nodes, graph.nodes);
  return sorted_split(graph, path, nodes.flatten());
}

// The only number of a file.
int64_t read_count(const std::string& path) {
  const Tensor counts = read_integers(path, 1);
  if (counts.numel() == 1) return counts.item<int64_t>();
  throw Error(ExitCode::data, path + ": has the counts of " + text(counts.numel()) +
                                  " graphs; expected one graph, whose nodes are classified");
}

std::string only_split(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.is_directory()) found.push_back(entry.path().filename());
  }
  if (found.size() == 1) return found[0];
  std::sort(found.begin(), found.end());
  std::string names;
  for (const std::string& name : found) names += (names.empty() ? "" : ", ") + name;
  throw Error(ExitCode::data, folder + ": has " +
                                  (found.empty() ? "no folder of a split" : "several splits (" + names + ")") +
                                  "; data.split says which one to take");
}

// A file of OGB says how many there are; empty: none does.
void check_count(const std::string& path, int64_t there, const std::string& what) {
  if (path.empty()) return;
  const int64_t said = read_count(path);
  if (said == there) return;
  throw Error(ExitCode::data,
              path + ": says that there are " + text(said) + " " + what + ", and " + text(there) + " are there");
}

GraphData read_files(const TextGraphFiles& files, bool undirected, const std::string& node_count,
                     const std::string& edge_count) {
  GraphData graph{.name = files.edges};
  graph.dense_features = read_reals(files.features, 0);
  graph.nodes = graph.dense_features.size(0), graph.features = graph.dense_features.size(1);
  const Tensor edges = read_integers(files.edges, 2);
  check_count(node_count, graph.nodes, "nodes");
  check_count(edge_count, edges.size(0), "edges");
  check_nodes(files.edges, edges, graph.nodes);
  set_edges(graph, edges.select(1, 0).contiguous(), edges.select(1, 1).contiguous(), undirected);
  graph.labels = read_integers(files.labels, 1).flatten();
  if (graph.labels.numel() != graph.nodes) {
    throw Error(ExitCode::data, files.labels + ": has " + text(graph.labels.numel()) + " labels for the " +
                                    text(graph.nodes) + " nodes of " + files.features);
  }
  graph.train = read_split(graph, files.train);
  graph.validation = read_split(graph, files.validation);
  if (!files.test.empty()) graph.test = read_split(graph, files.test);
  return graph;
}

}  // namespace

GraphData read_text_graph(const TextGraphFiles& files, bool undirected) {
  return read_files(files, undirected, /*node_count=*/"", /*edge_count=*/"");
}

GraphData read_ogb_graph(const std::string& folder, const std::string& split, bool undirected) {
  const std::string raw = folder + "/raw/", splits = folder + "/split";
  const std::string of_split = splits + "/" + (split.empty() ? only_split(splits) : split) + "/";
  const TextGraphFiles files = {.edges = raw + "edge.csv.gz",
                                .features = raw + "node-feat.csv.gz",
                                .labels = raw + "node-label.csv.gz",
                                .train = of_split + "train.csv.gz",
                                .validation = of_split + "valid.csv.gz",
                                .test = of_split + "test.csv.gz"};
  return read_files(files, undirected, raw + "num-node-list.csv.gz", raw + "num-edge-list.csv.gz");
}

}  // namespace strata::trainer
