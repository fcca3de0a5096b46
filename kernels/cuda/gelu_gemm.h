// SPDX-License-Identifier: MIT
// The launcher of gelu_gemm.cu: a product of 16-bit matrices on Hopper followed by gelu_tanh, which is applied beside
// the product of the next tile.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/cuda_type.h"

namespace strata::kernels {

// pre_activation = a b + bias, rounded, and out = gelu_tanh(pre_activation), both [rows, columns]. Sums are fp32, over
// k in order: the same bits always.
struct GeluGemm {
  CudaType type;                                 // bfloat16 or float16, of all matrices
  const void* a;                                 // [rows, depth], neighboring k
  const void* b;                                 // [columns, depth], neighboring k
  const void* bias;                              // [columns], or null
  void *out, *pre_activation;                    // [rows, columns]
  int64_t rows, columns, depth;                  // below 2^30; columns a multiple of 8
  int64_t a_distance, b_distance, out_distance;  // elements from row to row, multiples of 8; pre_activation's as out's
};

// All pointers are at 16-byte boundaries. Hopper only.
cudaError_t launch_gelu_gemm(const GeluGemm& gemm, cudaStream_t stream);

}  // namespace strata::kernels
