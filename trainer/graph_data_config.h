// SPDX-License-Identifier: MIT
// `data: {type: graph}` and `data: {type: synthetic_graph}`: where the graph of a run comes from.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "configs/limits.h"

namespace strata::trainer {

// Which nodes a rank computes. metis: parts with few edges between them; contiguous: as they stand in the file.
enum class GraphPartition { metis, contiguous };
constexpr std::array<std::string_view, 2> names(GraphPartition) { return {"metis", "contiguous"}; }

struct GraphDataConfig {
  std::string file = {};
  bool undirected = true;
  GraphPartition partition = GraphPartition::metis;

  template <class Fields>
  void describe(Fields& fields) {
    fields.require("file", file,
                   ".npz of the kind of Amazon's and Coauthor's graphs: adj_*, attr_*, labels, and the nodes of the "
                   "split as train, validation and test");
    fields.add("undirected", undirected,
               "edges lead back too; those that are there several times count once, self loops never");
    fields.add("partition", partition,
               "how nodes are spread over ranks: metis, with few edges between ranks; contiguous, as they stand in the "
               "file");
  }
};

// A random graph of this size, for measuring.
struct SyntheticGraphDataConfig {
  int64_t nodes = 0, edges = 0;

  template <class Fields>
  void describe(Fields& fields) {
    fields.require("nodes", nodes, "of a random graph, four of five of them for training", configs::between(5, 2e9));
    fields.require("edges", edges, "directed; a thousandth of the nodes has a tenth of them", configs::between(0, 2e9));
  }
};

}  // namespace strata::trainer
