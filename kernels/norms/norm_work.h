// SPDX-License-Identifier: MIT
// NormWork: what rms_norm and layer_norm must move, alone or with the residual added first.
#pragma once

#include <cstdint>

#include "kernels/runtime/op_shape.h"

namespace strata::kernels {

struct NormWork {
  int64_t rows, width;
  bool adds;
  int64_t vectors;            // weight, and bias where there is one
  int64_t statistics_of_row;  // rstd, and the mean of layer_norm

  // With a sum, the forward moves residual, branch, sum and y. The backward moves the gradients of y and of the sum,
  // the sum and its gradient.
  Work forward(double e) const { return {bytes(adds ? 4 : 2, double(vectors), e), 0}; }
  Work backward(double e) const { return {bytes(adds ? 4 : 3, double(1 + vectors), e), 0}; }

 private:
  double bytes(double matrices, double read_and_written, double e) const {
    const double n = double(rows), d = double(width);
    return matrices * n * d * e + read_and_written * d * e + n * double(statistics_of_row) * kStatisticBytes;
  }
};

}  // namespace strata::kernels
