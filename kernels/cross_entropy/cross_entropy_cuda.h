// SPDX-License-Identifier: MIT
// The launchers of cross_entropy.cu. They take raw pointers, sizes and a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/cuda_type.h"

namespace strata::kernels {

struct CrossEntropyArguments {
  CudaType type;
  const void* logits;      // [rows, columns]
  void* gradient;          // like logits, and may be the same memory; null: computes the loss only
  const int64_t* targets;  // [rows]
  const float* scale;      // one number
  float* row_losses;       // [rows], workspace
  float* loss;             // one number
  // Columns after the classes are padding. Their logits must be so low that the probability of padding is 0.
  int64_t rows, columns, classes, ignore_index;
  float label_smoothing;
  int waves;  // waves of blocks, if rows are so long that they are held in shared memory
};

// Computes the loss and, if `gradient` is not null, the gradient, with one write of the gradient, and on Hopper with
// one read of the logits. The loss has the same bits every time. A target that is neither a class nor ignore_index
// stops the kernel with an error.
using CrossEntropyLauncher = cudaError_t(const CrossEntropyArguments& arguments, cudaStream_t stream);

// result = gradient * factor for `count` elements of `type`. `factor` is one number on the device. If result is
// gradient and the factor is 1, no element is read or written.
using CrossEntropyBackwardLauncher = cudaError_t(CudaType type, void* result, const void* gradient, const float* factor,
                                                 int64_t count, cudaStream_t stream);

// One of each Code.
namespace hopper {
CrossEntropyLauncher launch_cross_entropy;
CrossEntropyBackwardLauncher launch_cross_entropy_backward;
}  // namespace hopper
namespace portable {
CrossEntropyLauncher launch_cross_entropy;
CrossEntropyBackwardLauncher launch_cross_entropy_backward;
}  // namespace portable

}  // namespace strata::kernels
