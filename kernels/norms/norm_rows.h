// SPDX-License-Identifier: MIT
// NormForward and NormBackward: the arguments of the CUDA kernels of rms_norm and layer_norm, raw pointers to
// contiguous rows and sizes.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/cuda_type.h"
#include "kernels/cuda/weight_gradient.h"

namespace strata::kernels {

// Arguments of a forward. Pointers are of `type` unless noted; rows are [rows, width], weight and bias [width], mean
// and rstd [rows].
struct NormForward {
  CudaType type;
  void *y;
  void *sum;  // receives x + branch; null if branch is null
  float *mean, *rstd;
  const void *x, *branch;
  const void *weight, *bias;  // bias is null if there is none
  int64_t rows, width;
  float eps;
};

struct NormBackward {
  CudaType type;
  void *grad_x;
  const void *grad_y, *grad_sum;  // grad_sum is the gradient of the sum; null if there is none
  const void *x;                  // the input of the norm
  const void *weight, *bias;      // bias is read only if an activation follows the norm
  const float *mean, *rstd;
  float *weight_partials, *bias_partials;  // workspace: [norm_backward_partials(rows, waves, multiprocessors), width]
  WeightGradient weight_gradient, bias_gradient;
  int64_t rows, width;
  int waves, multiprocessors;  // a wave has a block for each multiprocessor
};

template <class Arguments>
using NormLauncher = cudaError_t(const Arguments &arguments, cudaStream_t stream);

// The largest number of blocks of a backward: one per multiprocessor in each wave. Each block writes its own partial
// sums.
inline int64_t norm_backward_partials(int64_t rows, int waves, int multiprocessors) {
  return waves == 1 && rows < multiprocessors ? rows : int64_t{waves} * multiprocessors;
}

}  // namespace strata::kernels
