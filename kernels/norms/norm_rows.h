// SPDX-License-Identifier: MIT
// What the CUDA kernels of rms_norm and layer_norm take: raw pointers to contiguous rows, and sizes.
#pragma once

#include <cstdint>

#include "kernels/cuda/cuda_type.h"

namespace strata::kernels {

// Pointers of `type` unless they say otherwise; rows are [rows, width], weight and bias [width], mean and rstd [rows].
struct NormForward {
  CudaType type;
  void *y;
  void *sum;  // receives x + branch; null like branch when nothing is added
  float *mean, *rstd;
  const void *x, *branch;
  const void *weight, *bias;  // a bias of null is none
  int64_t rows, width;
  float eps;
};

// Where the gradient of a weight goes: overwritten, or added to. A pointer of null: nobody wants it.
struct NormWeightGradient {
  void *data;
  CudaType type;
  bool add;
};

struct NormBackward {
  CudaType type;
  void *grad_x;
  const void *grad_y, *grad_sum;  // grad_sum, what came through the sum itself, may be null
  const void *x;                  // what was normalized
  const void *weight, *bias;      // bias is read where a function follows the norm
  const float *mean, *rstd;
  float *weight_partials, *bias_partials;  // workspace: [norm_backward_partials(rows), width] each
  NormWeightGradient weight_gradient, bias_gradient;
  int64_t rows, width;
};

// How many blocks a backward has at most, each of which writes its own partial sums: one on each of a Hopper GPU's
// multiprocessors.
inline constexpr int64_t kMaxNormBackwardBlocks = 132;

inline int64_t norm_backward_partials(int64_t rows) {
  return rows < kMaxNormBackwardBlocks ? rows : kMaxNormBackwardBlocks;
}

}  // namespace strata::kernels
