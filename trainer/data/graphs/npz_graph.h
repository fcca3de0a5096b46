// SPDX-License-Identifier: MIT
// Graphs in the .npz format of PyG's Amazon and Coauthor data sets, with a split.
#pragma once

#include <string>

#include "trainer/data/graphs/graph_data.h"

namespace strata::trainer {

// adj_{shape,indptr,indices}: the edges, from the rows of a sparse matrix to its columns; what their values say is not
// read. attr_{shape,indptr,indices,data}: the features as such a matrix, or attr_matrix: as a dense one. labels: of all
// nodes. train, validation, perhaps test: the
// nodes of the split. Throws Error (data), with the file, the array and the place.
GraphData read_npz_graph(const std::string& path, bool undirected);

}  // namespace strata::trainer
