// SPDX-License-Identifier: MIT
// The launchers of swiglu.cu. They take raw pointers to contiguous rows of `type`, sizes and a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/activation/activation_kind.h"
#include "kernels/cuda/cuda_type.h"

namespace strata::kernels {

// y and grad_y are [rows, width]. gate_up and its gradient are [rows, 2 width], and may be the same memory. kind is
// silu or gelu_tanh. amax, which may be null, gets the largest magnitude of y or of the gradient in kAmaxPartials
// numbers (kernels/cuda/amax.h); nothing if there are no elements.
cudaError_t launch_swiglu_forward(CudaType type, Activation kind, void* y, const void* gate_up, int64_t rows,
                                  int64_t width, unsigned* amax, cudaStream_t stream);

cudaError_t launch_swiglu_backward(CudaType type, Activation kind, void* grad_gate_up, const void* grad_y,
                                   const void* gate_up, int64_t rows, int64_t width, unsigned* amax,
                                   cudaStream_t stream);

}  // namespace strata::kernels
