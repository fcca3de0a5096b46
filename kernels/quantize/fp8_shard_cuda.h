// SPDX-License-Identifier: MIT
// The launchers of fp8_shard.cu.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/cuda_type.h"

namespace strata::kernels {

// codes [count] <- e4m3 of x [count] / scale [1]. x and codes are at 16-byte boundaries.
cudaError_t launch_weight_codes(CudaType type, const void* x, const float* scale, uint8_t* codes, int64_t count,
                                cudaStream_t stream);

// transposed [columns, rows] <- codes [rows, columns]. Both sizes are positive multiples of 16, and both matrices are
// at 16-byte boundaries.
cudaError_t launch_transpose_codes(const uint8_t* codes, uint8_t* transposed, int64_t rows, int64_t columns,
                                   cudaStream_t stream);

}  // namespace strata::kernels
