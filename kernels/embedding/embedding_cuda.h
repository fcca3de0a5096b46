// SPDX-License-Identifier: MIT
// The launchers of embedding.cu. They take raw pointers, sizes and a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/cuda_type.h"

namespace strata::kernels {

// y [count, width] = rows of weight [vocabulary, width]. An index outside the vocabulary stops the kernel with an
// error.
cudaError_t launch_embedding_forward(CudaType type, void* y, const int64_t* indices, const void* weight, int64_t count,
                                     int64_t vocabulary, int64_t width, cudaStream_t stream);

struct EmbeddingBackward {
  CudaType type;
  const void* grad_y;      // [count, width]
  const int64_t* indices;  // [count]
  void* gradient;          // [vocabulary, width] of `gradient_type`: overwritten, or added to if `add`
  CudaType gradient_type;
  bool add;
  int64_t count, vocabulary, width;
};

// Returns the size in bytes of the workspace that the backward needs.
int64_t embedding_backward_workspace(const EmbeddingBackward& arguments);

// Sums the rows of equal indices in the order of their positions, without atomics.
cudaError_t launch_embedding_backward(const EmbeddingBackward& arguments, void* workspace, cudaStream_t stream);

}  // namespace strata::kernels
