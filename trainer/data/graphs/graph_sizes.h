// SPDX-License-Identifier: MIT
// How large the graphs of a step are: what the shapes of its ops, and their memory, follow from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace strata::trainer {

// Of a sparse matrix.
struct MatrixSize {
  int64_t rows = 0, columns = 0, entries = 0;
  bool weighted = false;
};

// See modules::GraphStep.
struct GraphSizes {
  int64_t nodes = 0;  // whose features come in
  MatrixSize features = {}, pooling = {};
  std::vector<MatrixSize> layers = {};  // empty: nothing is known
  MatrixSize standing = {};             // of the nodes of a rank, which stays on the device; no rows: none does
  int64_t splits = 0;                   // whose labels stay there too
  int64_t sent = 0;                     // nodes of a rank that others need, once for each of those

  MatrixSize of_layer(int64_t layer) const {
    if (layers.size() <= 1) return layers.empty() ? MatrixSize() : layers.front();
    return layers.at(static_cast<size_t>(layer));
  }
  int64_t inputs_of_layer(int64_t layer) const { return layer == 0 ? nodes : of_layer(layer - 1).rows; }
};

}  // namespace strata::trainer
