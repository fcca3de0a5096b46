// SPDX-License-Identifier: MIT
// The sparse matrix with which a kind of graph convolution multiplies.
#pragma once

#include "modules/config/graph_network_config.h"
#include "trainer/data/graphs/graph_data.h"

namespace strata::trainer {

// Returns the matrix [nodes, nodes] in CSR: offsets int64 [nodes + 1], columns int64 [edges], values fp32 [edges]
// (undefined: all 1). Convolutions with self loops have one for each node, before its neighbors. The values of gcn are
// 1 / sqrt(degree of the source x degree of the target), where both degrees include the self loop.
SparseRows convolution_matrix(const modules::GraphNetworkConfig& model, const GraphData& graph);

}  // namespace strata::trainer
