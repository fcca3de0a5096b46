// SPDX-License-Identifier: MIT
// The launchers of activation.cu. They take raw pointers to `count` contiguous elements, and a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/activation/activation_kind.h"
#include "kernels/cuda/cuda_type.h"

namespace strata::kernels {

// y may be x.
cudaError_t launch_activation_forward(CudaType type, Activation kind, void* y, const void* x, int64_t count,
                                      cudaStream_t stream);

cudaError_t launch_activation_backward(CudaType type, Activation kind, void* grad_x, const void* grad_y, const void* x,
                                       int64_t count, cudaStream_t stream);

}  // namespace strata::kernels
