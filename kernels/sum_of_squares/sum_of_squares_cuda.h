// SPDX-License-Identifier: MIT
// The launchers of sum_of_squares.cu. They take a table of raw pointers, and a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/cuda_type.h"

namespace strata::kernels {

// The tensors of one launch. The table is an argument of the kernel, which allows 4 KiB.
struct SquaredTensors {
  static constexpr int kMax = 160;
  const void* data[kMax];
  int64_t elements[kMax];
  int64_t first_piece[kMax];  // number of the tensor's first piece; pieces of all tensors are counted together
  int count = 0;
  int64_t pieces = 0;
};

// A tensor is cut into pieces of this many elements, so that its sums do not depend on the number of blocks.
inline constexpr int64_t kSquaredPiece = 32768;

// partials[i] = the sum of squares of piece i.
cudaError_t launch_sums_of_squares(CudaType type, const SquaredTensors& tensors, double* partials, cudaStream_t stream);

// total = the sum of all partials, in a fixed order.
cudaError_t launch_sum_of_partials(float* total, const double* partials, int64_t count, cudaStream_t stream);

}  // namespace strata::kernels
