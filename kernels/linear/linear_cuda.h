// SPDX-License-Identifier: MIT
// The launchers of linear.cu, for the parts of linear that are no epilogue of cuBLASLt.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/activation/activation_kind.h"
#include "kernels/cuda/cuda_type.h"

namespace strata::kernels {

// The number of rows of fp32 [width] that launch_activation_gradient needs as workspace; 0 if there are no rows.
int64_t linear_backward_partials(int64_t rows, int64_t width);

// grad = grad_y * activation'(pre_activation), and partial sums of grad over its rows. Without an activation grad and
// pre_activation are null; without a bias partials is null.
cudaError_t launch_activation_gradient(CudaType type, void* grad, float* partials, const void* grad_y,
                                       const void* pre_activation, Activation activation, int64_t rows, int64_t width,
                                       cudaStream_t stream);

// Adds the partial sums, always in the same order, to the gradient of the bias, which is overwritten or, with `add`,
// added to.
cudaError_t launch_bias_gradient(CudaType type, void* grad_bias, bool add, const float* partials, int64_t count,
                                 int64_t width, cudaStream_t stream);

}  // namespace strata::kernels
