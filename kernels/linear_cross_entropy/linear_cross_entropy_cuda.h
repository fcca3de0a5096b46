// SPDX-License-Identifier: MIT
// The launcher of linear_cross_entropy.cu: raw pointers, a size and a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/cuda_type.h"

namespace strata::kernels {

// A gradient times a factor, `count` elements.
struct ScaledGradient {
  CudaType type;
  const void* gradient;
  const float* factor;   // one number on the device
  CudaType result_type;  // any where the gradient is fp32, otherwise the same
  void* result;          // overwritten, or added to
  bool add;
  int64_t count;
};

// One read and one write of each element, rounded once.
cudaError_t launch_scaled_gradient(const ScaledGradient& arguments, cudaStream_t stream);

}  // namespace strata::kernels
