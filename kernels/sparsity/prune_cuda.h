// SPDX-License-Identifier: MIT
// The launchers of prune.cu. They read the weight once. Pointers are at boundaries of whole groups of four elements,
// and `groups` is the number of groups.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/cuda_type.h"

namespace strata::kernels {

// pruned = weight, with +0 for elements that are not kept.
cudaError_t launch_prune(CudaType type, void* pruned, const void* weight, int64_t groups, cudaStream_t stream);

// kept = true for elements that are kept.
cudaError_t launch_kept_of_four(CudaType type, bool* kept, const void* weight, int64_t groups, cudaStream_t stream);

}  // namespace strata::kernels
