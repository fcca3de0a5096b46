// SPDX-License-Identifier: MIT
// The launchers of rms_norm.cu: raw pointers to contiguous rows, sizes and a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda_type.h"

namespace strata::kernels {

// y, x [rows, width] and weight [width] of `type`; rstd [rows].
cudaError_t launch_rms_norm_forward(CudaType type, void* y, float* rstd, const void* x, const void* weight,
                                    int64_t rows, int64_t width, float eps, cudaStream_t stream);

// How many rows of fp32 [width] the backward needs as workspace.
int64_t rms_norm_backward_partials(int64_t rows);

// The widest row that the backward's sums fit shared memory with.
inline constexpr int64_t kRmsNormBackwardMaxWidth = 56 * 1024;

// grad_x, grad_y, x and weight of `type`; grad_weight [width] of `weight_type` is overwritten, or added to. No atomics:
// partial sums of fixed sets of rows, added up in a fixed order.
cudaError_t launch_rms_norm_backward(CudaType type, void* grad_x, CudaType weight_type, void* grad_weight, bool add,
                                     float* partials, const void* grad_y, const void* x, const void* weight,
                                     const float* rstd, int64_t rows, int64_t width, cudaStream_t stream);

}  // namespace strata::kernels
