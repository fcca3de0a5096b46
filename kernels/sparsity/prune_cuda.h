// SPDX-License-Identifier: MIT
// The launchers of prune.cu. They read the weight [rows, width] once. It is contiguous, at a boundary of 16 bytes, and
// groups of four divide the width; with a transposable mask they divide the rows too.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/cuda_type.h"
#include "kernels/sparsity/prune_group.h"

namespace strata::kernels {

struct PruneSizes {
  int64_t rows, width;
};

// pruned = weight, with +0 for elements that are not kept.
cudaError_t launch_prune(CudaType type, PruneMask mask, void* pruned, const void* weight, PruneSizes sizes,
                         cudaStream_t stream);

// kept = true for elements that are kept.
cudaError_t launch_kept_of_four(CudaType type, PruneMask mask, bool* kept, const void* weight, PruneSizes sizes,
                                cudaStream_t stream);

}  // namespace strata::kernels
