// SPDX-License-Identifier: MIT
// The launchers of linear.cu: what of a linear layer is not an epilogue of cuBLASLt.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/activation/activation_kind.h"
#include "kernels/cuda/cuda_type.h"

namespace strata::kernels {

// product += bias where there is one, and y = activation(product); product and y [rows, width], bias [width].
cudaError_t launch_bias_activation(CudaType type, void* y, void* product, const void* bias, Activation activation,
                                   int64_t rows, int64_t width, cudaStream_t stream);

// How many rows of fp32 [width] the next one needs as workspace; none without rows.
int64_t linear_backward_partials(int64_t rows, int64_t width);

// grad = grad_y * activation'(pre_activation), and the sums of grad over its rows in parts. Without an activation grad
// and pre_activation are null, without a bias partials is.
cudaError_t launch_activation_gradient(CudaType type, void* grad, float* partials, const void* grad_y,
                                       const void* pre_activation, Activation activation, int64_t rows, int64_t width,
                                       cudaStream_t stream);

// The bias's gradient from the parts, always in the same order: written, or added to what is there.
cudaError_t launch_bias_gradient(CudaType type, void* grad_bias, bool add, const float* partials, int64_t count,
                                 int64_t width, cudaStream_t stream);

}  // namespace strata::kernels
