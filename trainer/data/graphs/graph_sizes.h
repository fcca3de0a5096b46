// SPDX-License-Identifier: MIT
// The sizes of the graphs of a step, which determine the shapes of its ops and their memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace strata::trainer {

// The size of a sparse matrix.
struct MatrixSize {
  int64_t rows = 0, columns = 0, entries = 0;
  bool weighted = false;
};

// The sizes of a modules::GraphStep.
struct GraphSizes {
  int64_t nodes = 0;  // nodes whose features are the input
  MatrixSize features = {}, pooling = {};
  std::vector<MatrixSize> layers = {};  // empty if unknown

  MatrixSize of_layer(int64_t layer) const {
    if (layers.size() <= 1) return layers.empty() ? MatrixSize() : layers.front();
    return layers.at(static_cast<size_t>(layer));
  }
  int64_t inputs_of_layer(int64_t layer) const { return layer == 0 ? nodes : of_layer(layer - 1).rows; }
};

}  // namespace strata::trainer
