// SPDX-License-Identifier: MIT
// The launcher of likeliest.cu: the likeliest token of each row, in one kernel.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/cuda_type.h"

namespace strata::generation {

// logits [rows, width], contiguous -> ids [rows]: the first of the largest logits, or `no_token` if that is NaN or
// infinite. width is at least 1 and below 2^32.
struct LikeliestTokens {
  kernels::CudaType type;
  const void* logits;
  int64_t* ids;
  int64_t rows, width, no_token;
};

cudaError_t launch_likeliest(const LikeliestTokens& arguments, cudaStream_t stream);

}  // namespace strata::generation
