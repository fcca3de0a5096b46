// SPDX-License-Identifier: MIT
// An order of the nodes of a graph in which ranks need few nodes of each other, found by METIS.
#pragma once

#include <cstdint>

#include "trainer/data/graphs/graph_data.h"
#include "trainer/data/graphs/graph_partition.h"

namespace strata::trainer {

// Makes 64 parts with few edges between them and about equal numbers of nodes and edges, by METIS's recursive
// bisection. Neighboring parts belong to one larger part. Graphs of fewer than 256 nodes keep their order. Throws Error
// (configuration) if the METIS library cannot be loaded or cannot count the nodes and edges.
//
// METIS works in a child process, so that a request to stop the run is handled as at any other time.
GraphOrder order_by_metis(const GraphData& graph);
// METIS's numbers have 32 bits and sum up nodes and directed edges.
bool metis_can_count(int64_t nodes, int64_t directed_edges);

}  // namespace strata::trainer
