// SPDX-License-Identifier: MIT
// Reads graphs from text files of numbers: an edge list, features, labels and a split. Reads OGB's folders of such
// files too.
#pragma once

#include <cstdint>
#include <string>

#include "trainer/data/graphs/graph_data.h"

namespace strata::trainer {

// Each line has the source and target of an edge, all features of a node, a label, or a node of a split.
struct TextGraphFiles {
  std::string edges, features, labels, train, validation, test;  // test may be empty
  // Number of columns if the features are a sparse matrix, which has one entry in each line; 0 if they are dense.
  int64_t sparse_columns = 0;
};

// Throws Error (data) with file and line, as the functions below do.
GraphData read_text_graph(const TextGraphFiles& files, bool undirected);

// Reads raw/{edge,node-feat,node-label,num-node-list,num-edge-list}.csv.gz and split/<split>/{train,valid,test}.csv.gz,
// as unpacked from OGB's data sets for nodes. An empty `split` selects the only split that exists.
GraphData read_ogb_graph(const std::string& folder, const std::string& split, bool undirected);

// Reads OGB's data sets for graphs: many graphs, whose sizes are in num-node-list and num-edge-list, with nodes
// numbered from 0 in each graph. Labels are in graph-label.csv.gz, and the splits have graphs. Features of edges are
// not read.
GraphData read_ogb_graphs(const std::string& folder, const std::string& split, bool undirected);

}  // namespace strata::trainer
