// SPDX-License-Identifier: MIT
// Graphs in text files of numbers: an edge list, features, labels and a split; and OGB's folders of such files.
#pragma once

#include <string>

#include "trainer/data/graphs/graph_data.h"

namespace strata::trainer {

// Of edges, a line has source and target; of features, all of a node; of labels, one; of splits, a node.
struct TextGraphFiles {
  std::string edges, features, labels, train, validation, test;  // test may be empty
};

// Throws Error (data), with file and line.
GraphData read_text_graph(const TextGraphFiles& files, bool undirected);

// raw/{edge,node-feat,node-label,num-node-list,num-edge-list}.csv.gz and split/<split>/{train,valid,test}.csv.gz, as
// OGB's data sets for nodes are unpacked. An empty `split`: the only one that is there.
GraphData read_ogb_graph(const std::string& folder, const std::string& split, bool undirected);

// The same of its data sets for graphs: many graphs, as num-node-list and num-edge-list count them, with nodes numbered
// from 0 in each; graph-label.csv.gz; splits of graphs. Features of edges are not read.
GraphData read_ogb_graphs(const std::string& folder, const std::string& split, bool undirected);

}  // namespace strata::trainer
