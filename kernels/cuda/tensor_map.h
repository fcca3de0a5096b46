// SPDX-License-Identifier: MIT
// Describes a matrix to the copy engine of Hopper GPUs (Tensor Memory Accelerator).
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/cuda_type.h"

namespace strata::kernels {

using EncodeTensorMap = decltype(&cuTensorMapEncodeTiled);

// Returns cuTensorMapEncodeTiled of the driver; null if there is none. It is found at run time, because machines
// without a GPU have no driver to link with.
EncodeTensorMap find_tensor_map_encoder();

// Describes a matrix of 16-bit elements as boxes of `box_rows` rows and 64 columns, whose 128 bytes of a row are
// swizzled in shared memory. Elements outside the matrix are read as zeros. `data` is 16-byte aligned. `distance`
// counts elements from row to row and is a multiple of 8. Returns cudaErrorNotSupported if the driver cannot encode
// such maps, and cudaErrorInvalidValue if it refuses this one.
cudaError_t describe_matrix(CUtensorMap& map, CudaType type, const void* data, int64_t rows, int64_t columns,
                            int64_t distance, int box_rows);

}  // namespace strata::kernels
