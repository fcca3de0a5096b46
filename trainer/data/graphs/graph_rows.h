// SPDX-License-Identifier: MIT
// The sparse matrix that a kind of graph convolution multiplies with.
#pragma once

#include "modules/config/graph_network_config.h"
#include "trainer/data/graphs/graph_data.h"

namespace strata::trainer {

// The neighbors of each node: int64 [nodes + 1], int64 [edges]; weights fp32 [edges], undefined: 1. Convolutions that
// want self loops have one for each node, in front of its neighbors; those of gcn are weighted by
// 1 / sqrt(degree of the source x degree of the target), the loop included in both.
SparseRows rows_for(const modules::GraphNetworkConfig& model, const GraphData& graph);

}  // namespace strata::trainer
