// SPDX-License-Identifier: MIT
// Describes the rows of a packed tensor of attention to the copy engine: [B, positions, columns], in boxes of 64
// columns. Position i * step + r of a row is number i of its residue r, so the coordinates are column, number, residue,
// row of the batch. A sequence is a residue of a row of the batch.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/cuda_type.h"

namespace strata::kernels {

struct PackedRows {
  const void* data = nullptr;  // 16-byte aligned
  int64_t columns = 0, positions = 0, batch = 0;
  int64_t distance = 0;  // elements from one position to the next; a row of the batch has positions * distance
  int64_t step = 1;      // divides positions
};

// Positions behind the last are read as zeros and not written, so rows of the batch do not mix.
cudaError_t describe_rows(CUtensorMap& map, CudaType type, const PackedRows& rows, int box_rows);

}  // namespace strata::kernels
