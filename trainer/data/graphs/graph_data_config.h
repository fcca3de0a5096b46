// SPDX-License-Identifier: MIT
// The types of `data:` for graphs: where the graphs of a run are read from.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "configs/limits.h"

namespace strata::trainer {

// all: a step uses the whole graph, which its ranks share. Otherwise a sample is a node, and the list gives the largest
// number of neighbors: of a sample in the last layer, of those neighbors in the layer before, and so on.
enum class AllNeighbors { all };
constexpr std::array<std::string_view, 1> names(AllNeighbors) { return {"all"}; }
using Neighbors = std::variant<AllNeighbors, std::vector<int64_t>>;

template <class Fields>
void describe_neighbors(Neighbors& neighbors, Fields& fields) {
  fields.add("neighbors", neighbors,
             "all: a step uses the whole graph; a list such as [15, 10]: the maximum number of sampled neighbors of a "
             "training node, of those neighbors, ..., drawn anew in each step",
             configs::between(1, 1e6));
}

// The assignment of nodes to ranks. metis: parts with few edges between them; contiguous: in the order of the file.
enum class GraphPartition { metis, contiguous };
constexpr std::array<std::string_view, 2> names(GraphPartition) { return {"metis", "contiguous"}; }

struct GraphEdges {
  bool undirected = true;

  template <class Fields>
  void describe_edges(Fields& fields) {
    fields.add("undirected", undirected,
               "add the reverse of every edge; in any case repeated edges count once and self loops are dropped");
  }
};

// Keys that are the same for a single graph in every format.
struct GraphUse : GraphEdges {
  GraphPartition partition = GraphPartition::metis;
  Neighbors neighbors = AllNeighbors::all;

  template <class Fields>
  void describe_use(Fields& fields) {
    describe_edges(fields);
    fields.add("partition", partition,
               "how nodes are split over ranks: metis: few edges between ranks; contiguous: in the order of the file");
    describe_neighbors(neighbors, fields);
  }
};

struct NpzGraphDataConfig : GraphUse {
  std::string file = {};

  template <class Fields>
  void describe(Fields& fields) {
    fields.require("file", file,
                   ".npz file in the format of PyG's Amazon and Coauthor graphs: adj_*, attr_*, labels, and the nodes "
                   "of the split as train, validation and test");
    describe_use(fields);
  }
};

// A folder with an unpacked OGB data set.
struct OgbFolderConfig {
  std::string folder = {}, split = {};

  template <class Fields>
  void describe_folder(Fields& fields, const char* what) {
    fields.require("folder", folder, what);
    fields.add("split", split, "name of the folder in split/; empty: the only one that exists");
  }
};

struct OgbGraphDataConfig : OgbFolderConfig, GraphUse {
  template <class Fields>
  void describe(Fields& fields) {
    describe_folder(fields, "folder of an unpacked OGB data set for nodes: raw/*.csv.gz and split/*/*.csv.gz");
    describe_use(fields);
  }
};

// Many small graphs, each with a label.
struct OgbGraphsDataConfig : OgbFolderConfig, GraphEdges {
  template <class Fields>
  void describe(Fields& fields) {
    describe_folder(fields, "folder of an unpacked OGB data set for graphs: raw/*.csv.gz and split/*/*.csv.gz");
    describe_edges(fields);
  }
};

struct TextGraphDataConfig : GraphUse {
  std::string edges = {}, features = {}, labels = {}, train_nodes = {}, validation_nodes = {}, test_nodes = {};

  template <class Fields>
  void describe(Fields& fields) {
    fields.require("edges", edges,
                   "text file, gzipped or plain, with the source and the target of an edge in each line");
    fields.require("features", features, "text file with the features of a node in each line");
    fields.require("labels", labels, "text file with the label of a node in each line");
    fields.require("train_nodes", train_nodes, "text file with the numbers of the training nodes");
    fields.require("validation_nodes", validation_nodes, "text file with the numbers of the validation nodes");
    fields.add("test_nodes", test_nodes,
               "text file with the numbers of the test nodes, whose accuracy is only reported; empty: no test nodes");
    describe_use(fields);
  }
};

// A random graph of this size, for benchmarks.
struct SyntheticGraphDataConfig {
  int64_t nodes = 0, edges = 0;
  Neighbors neighbors = AllNeighbors::all;

  template <class Fields>
  void describe(Fields& fields) {
    fields.require("nodes", nodes, "number of nodes of a random graph; four of five are training nodes",
                   configs::between(5, 2e9));
    fields.require("edges", edges,
                   "number of directed edges; a thousandth of the nodes are the sources of a tenth of them",
                   configs::between(0, 2e9));
    describe_neighbors(neighbors, fields);
  }
};

}  // namespace strata::trainer
