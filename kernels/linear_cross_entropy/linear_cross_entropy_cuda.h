// SPDX-License-Identifier: MIT
// The launcher of linear_cross_entropy.cu. It takes raw pointers, a size and a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/cuda_type.h"

namespace strata::kernels {

// Arguments: a gradient of `count` elements that is multiplied by a factor.
struct ScaledGradient {
  CudaType type;
  const void* gradient;
  const float* factor;   // one number on the device
  CudaType result_type;  // any type if `type` is float32, otherwise `type`
  void* result;          // overwritten, or added to if `add`
  bool add;
  int64_t count;
};

// Reads and writes each element once and rounds it once.
cudaError_t launch_scaled_gradient(const ScaledGradient& arguments, cudaStream_t stream);

}  // namespace strata::kernels
