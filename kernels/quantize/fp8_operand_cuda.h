// SPDX-License-Identifier: MIT
// The launchers of fp8_amax.cu, fp8_operand.cu, fp8_row_operand.cu and fp8_shard.cu: the largest magnitudes of a
// matrix, and codes of it and of its transpose.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/cuda_type.h"
#include "kernels/quantize/number_format.h"

namespace strata::kernels {

// The scale of a matrix of zeros, as in quantize().
inline constexpr float kSmallestFp8Scale = 0x1p-117f;

// x [rows, columns] of `type`, at a 16-byte boundary like each of its rows, which are row_stride elements apart.
// columns is a multiple of 16, and both sizes are positive. Element e4m3 or e5m2.
// row_codes [rows, columns] and column_codes [columns, padded_rows] are at 16-byte boundaries, or null if not needed.
// padded_rows is the next multiple of 16 after rows - 1.
// One scale: amax has kAmaxPartials numbers at a 16-byte boundary (kernels/cuda/amax.h). rows_scale, fp32 [1], is
// written, and columns_scale is not used. If `past` is not null and above 0, the scale follows from `past`. If
// `present` is not null, it has the bits of a magnitude, and is raised to the largest |x|.
//
// One scale for each row of the codes: amax has the bits of the largest |x| of each row, and then of each column.
// rows_scale, fp32 [rows], is null if row_codes is, and columns_scale, fp32 [columns], if column_codes is. `past` and
// `present` are not used.
struct Fp8Cast {
  CudaType type;
  Element element;
  const void* x;
  int64_t rows, columns, row_stride, padded_rows;
  uint8_t *row_codes, *column_codes;
  unsigned* amax;
  const float* past;
  unsigned* present;
  float *rows_scale, *columns_scale;
};

// One scale: the first function reads x and writes amax, unless `past` is above 0. The second one reads x, and writes
// codes and scale. It reads amax only for the scale or for `present`. With `finds_amax`, for which `present` is not
// null, amax has no values if `past` is above 0, and the second function finds the largest |x| itself.
cudaError_t launch_fp8_amax(const Fp8Cast& arguments, cudaStream_t stream);
cudaError_t launch_fp8_cast(const Fp8Cast& arguments, bool finds_amax, cudaStream_t stream);

// One scale for each row of the codes. The first function replaces the numbers in amax by larger ones of x, so they are
// zeros before.
cudaError_t launch_fp8_row_amax(const Fp8Cast& arguments, cudaStream_t stream);
cudaError_t launch_fp8_row_cast(const Fp8Cast& arguments, cudaStream_t stream);

// codes [count] <- e4m3 of x [count] / scale [1]. x and codes are at 16-byte boundaries.
cudaError_t launch_weight_codes(CudaType type, const void* x, const float* scale, uint8_t* codes, int64_t count,
                                cudaStream_t stream);

// transposed [columns, rows] <- codes [rows, columns]. Both sizes are positive multiples of 16, and both matrices are
// at 16-byte boundaries.
cudaError_t launch_transpose_codes(const uint8_t* codes, uint8_t* transposed, int64_t rows, int64_t columns,
                                   cudaStream_t stream);

}  // namespace strata::kernels
