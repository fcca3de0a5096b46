// SPDX-License-Identifier: MIT
// The launcher of adamw.cu. It takes raw pointers to `count` elements each, and a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/cuda_type.h"

namespace strata::kernels {

struct AdamwArguments {
  float *master, *first_moment, *second_moment;
  const void* gradient;
  CudaType gradient_type;
  void* compute_copy;  // null: there is no copy
  CudaType copy_type;
  const float *learning_rate, *step, *gradient_scale, *skip;  // one number each
  double beta1, beta2, epsilon, weight_decay;
  int64_t count;
};

cudaError_t launch_adamw(const AdamwArguments& arguments, cudaStream_t stream);

}  // namespace strata::kernels
