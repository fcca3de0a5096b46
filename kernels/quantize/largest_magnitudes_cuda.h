// SPDX-License-Identifier: MIT
// The launcher of largest_magnitudes.cu.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/cuda_type.h"

namespace strata::kernels {

// Parts of tensors of one type, at 16-byte boundaries, none empty. largest[i] is an fp32 number, not negative.
struct PartsOfTensors {
  static constexpr int kMost = 64;
  int count = 0;
  const void* x[kMost];
  int64_t elements[kMost];
  float* largest[kMost];
};

// *largest[i] <- max(*largest[i], the largest |x[i]|). NaN is larger than infinity.
cudaError_t launch_largest_magnitudes(CudaType type, const PartsOfTensors& parts, cudaStream_t stream);

}  // namespace strata::kernels
