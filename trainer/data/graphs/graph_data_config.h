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
             "that a step sees: all, of the whole graph; or a list such as [15, 10], of a training node, of those in "
             "the layer before, ...: at most so many, drawn anew in each step",
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
               "edges lead back too; those that are there several times count once, self loops never");
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
               "how nodes are spread over ranks: metis, with few edges between ranks; contiguous, as they stand in the "
               "file");
    describe_neighbors(neighbors, fields);
  }
};

struct GraphDataConfig : GraphUse {
  std::string file = {};

  template <class Fields>
  void describe(Fields& fields) {
    fields.require("file", file,
                   ".npz of the kind of Amazon's and Coauthor's graphs: adj_*, attr_*, labels, and the nodes of the "
                   "split as train, validation and test");
    describe_use(fields);
  }
};

// A folder with an unpacked OGB data set.
struct OgbFolderConfig {
  std::string folder = {}, split = {};

  template <class Fields>
  void describe_folder(Fields& fields, const char* what) {
    fields.require("folder", folder, what);
    fields.add("split", split, "folder in split/; empty: the only one that is there");
  }
};

struct OgbGraphDataConfig : OgbFolderConfig, GraphUse {
  template <class Fields>
  void describe(Fields& fields) {
    describe_folder(fields, "of a data set of OGB for nodes, unpacked: raw/*.csv.gz and split/*/*.csv.gz");
    describe_use(fields);
  }
};

// Many small graphs, each with a label.
struct OgbGraphsDataConfig : OgbFolderConfig, GraphEdges {
  template <class Fields>
  void describe(Fields& fields) {
    describe_folder(fields, "of a data set of OGB for graphs, unpacked: raw/*.csv.gz and split/*/*.csv.gz");
    describe_edges(fields);
  }
};

struct TextGraphDataConfig : GraphUse {
  std::string edges = {}, features = {}, labels = {}, train_nodes = {}, validation_nodes = {}, test_nodes = {};

  template <class Fields>
  void describe(Fields& fields) {
    fields.require("edges", edges, "text file, gzipped or plain, of lines of two numbers: an edge's source and target");
    fields.require("features", features, "text file with the features of a node in each line");
    fields.require("labels", labels, "text file with the label of a node in each line");
    fields.require("train_nodes", train_nodes, "text file of the nodes for training");
    fields.require("validation_nodes", validation_nodes, "text file of the nodes to evaluate on");
    fields.add("test_nodes", test_nodes, "text file of the nodes to test on, which choose nothing; empty: none");
    describe_use(fields);
  }
};

// A random graph of this size, for benchmarks.
struct SyntheticGraphDataConfig {
  int64_t nodes = 0, edges = 0;
  Neighbors neighbors = AllNeighbors::all;

  template <class Fields>
  void describe(Fields& fields) {
    fields.require("nodes", nodes, "of a random graph, four of five of them for training", configs::between(5, 2e9));
    fields.require("edges", edges, "directed; a thousandth of the nodes has a tenth of them", configs::between(0, 2e9));
    describe_neighbors(neighbors, fields);
  }
};

}  // namespace strata::trainer
