// SPDX-License-Identifier: MIT
// The launcher of content_sum.cu, which knows no LibTorch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace strata::trainer {

// Adds ContentSum::low of sum_of_piece(values, count, offset) to *sum, with wrap-around.
cudaError_t launch_content_sum(const float* values, int64_t count, int64_t offset, int64_t* sum, cudaStream_t stream);

}  // namespace strata::trainer
