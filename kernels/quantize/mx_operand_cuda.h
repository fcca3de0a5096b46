// SPDX-License-Identifier: MIT
// The launcher of mx_operand.cu.
#pragma once

#include "kernels/quantize/fp8_operand_cuda.h"

namespace strata::kernels {

// The tiles of kernels/cuda/scale_tiles.h at 16-byte boundaries: E8M0 scales of the rows of the codes. Null where the
// codes are null.
struct MxScales {
  uint8_t *of_rows, *of_columns;
};

// Codes of `cast` with one scale for each 32 elements. columns is a multiple of 32, and padded_rows the next multiple
// of 32 after rows - 1. amax, past, present, rows_scale and columns_scale are not used.
cudaError_t launch_mx_cast(const Fp8Cast& cast, const MxScales& scales, cudaStream_t stream);

}  // namespace strata::kernels
