// SPDX-License-Identifier: MIT
// Reads sparse features of nodes from a text file that has one entry of their matrix in each line: node, feature and
// value.
#pragma once

#include <cstdint>
#include <string>

#include "trainer/data/graphs/graph_data.h"

namespace strata::trainer {

// A line without a value has the value 1. `nodes_are` ends a message about a node that is not there, and says where
// their number comes from. Returns rows with ascending columns. Throws Error (data) with file and line, also for an
// entry that is there twice.
SparseRows read_sparse_features(const std::string& path, int64_t nodes, const std::string& nodes_are, int64_t features);

}  // namespace strata::trainer
