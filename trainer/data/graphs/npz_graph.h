// SPDX-License-Identifier: MIT
// Reads graphs in the .npz format of PyG's Amazon and Coauthor data sets, with a split.
#pragma once

#include <string>

#include "trainer/data/graphs/graph_data.h"

namespace strata::trainer {

// The edges, from rows to columns of a sparse matrix, are adj_{shape,indptr,indices}; its values are not read. The
// features are a sparse matrix attr_{shape,indptr,indices,data} or a dense one, attr_matrix. `labels` has the labels of
// all nodes; train, validation and optionally test have the nodes of the split. Throws Error (data) with the file, the
// array and the place.
GraphData read_npz_graph(const std::string& path, bool undirected);

}  // namespace strata::trainer
