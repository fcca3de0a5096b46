// SPDX-License-Identifier: MIT
// The launcher of dropout.cu. It takes raw pointers, sizes and a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/cuda_type.h"

namespace strata::kernels {

struct DropoutArguments {
  CudaType type;
  void* y;
  const void* x;
  const int64_t* key;
  int64_t rows, columns, site, first_row;
  double probability;
};

cudaError_t launch_dropout(const DropoutArguments& arguments, cudaStream_t stream);

}  // namespace strata::kernels
