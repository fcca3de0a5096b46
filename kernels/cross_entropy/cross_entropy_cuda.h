// SPDX-License-Identifier: MIT
// The launchers of cross_entropy.cu: raw pointers, sizes and a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/cuda_type.h"

namespace strata::kernels {

struct CrossEntropyArguments {
  CudaType type;
  const void* logits;      // [rows, classes]
  void* gradient;          // like logits, and may be the same memory; null: the loss alone is made
  const int64_t* targets;  // [rows]
  const float* scale;      // one number
  float* row_losses;       // [rows], workspace
  float* loss;             // one number
  int64_t rows, classes, ignore_index;
  float label_smoothing;
};

// One read of the logits and one write of the gradient. The loss is the same to the bit every time. A target that is
// neither a class nor ignored stops the kernel with an error.
cudaError_t launch_cross_entropy(const CrossEntropyArguments& arguments, cudaStream_t stream);

// result = gradient * factor for `count` elements of `type`; the factor is a number on the device.
cudaError_t launch_cross_entropy_backward(CudaType type, void* result, const void* gradient, const float* factor,
                                          int64_t count, cudaStream_t stream);

}  // namespace strata::kernels
