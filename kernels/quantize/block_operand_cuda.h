// SPDX-License-Identifier: MIT
// The launchers of mx_operand.cu and nv_operand.cu: codes with scales of blocks.
#pragma once

#include "kernels/quantize/fp8_operand_cuda.h"

namespace strata::kernels {

// The tiles of kernels/cuda/scale_tiles.h at 16-byte boundaries: scales of the rows of the codes, one for each block.
// Null where the codes are null.
struct BlockScales {
  uint8_t *row_scales, *column_scales;
};

// Codes of `cast` with one E8M0 scale for each 32 elements. columns is a multiple of 32, and padded_rows the next
// multiple of 32 after rows - 1. amax, past, present, rows_scale and columns_scale are not used.
cudaError_t launch_mx_cast(const Fp8Cast& cast, const BlockScales& scales, cudaStream_t stream);

// The same with codes of e2m1, two in a byte, and one E4M3 scale for each 16 elements. row_codes is [rows, columns /
// 2], and column_codes [columns, padded_rows / 2]. It reads amax, that of launch_fp8_amax, and writes the scale of the
// tensor to rows_scale, fp32 [1]. past, present and columns_scale are not used.
cudaError_t launch_nv_cast(const Fp8Cast& cast, const BlockScales& scales, cudaStream_t stream);

}  // namespace strata::kernels
