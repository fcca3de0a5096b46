// SPDX-License-Identifier: MIT
// launch_gelu_gemm: a product of 16-bit matrices on Hopper with gelu_tanh as its epilogue. The kernel applies gelu_tanh
// to one tile while it multiplies the next.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/cuda_type.h"

namespace strata::kernels {

// pre_activation = a b^T + bias, rounded to `type`, and out = gelu_tanh(pre_activation), both [rows, columns]. Sums are
// fp32 and run over k in order, so the bits are always the same.
struct GeluGemm {
  CudaType type;                 // type of all matrices: bfloat16 or float16
  const void* a;                 // [rows, depth], elements along k are adjacent
  const void* b;                 // [columns, depth], elements along k are adjacent
  const void* bias;              // [columns], or null
  void *out, *pre_activation;    // [rows, columns]
  int64_t rows, columns, depth;  // below 2^30; columns is a multiple of 8
  // Elements from row to row, multiples of 8. pre_activation has the distance of out.
  int64_t a_distance, b_distance, out_distance;
};

// Runs on Hopper only. All pointers are 16-byte aligned. float32 returns cudaErrorInvalidValue.
cudaError_t launch_gelu_gemm(const GeluGemm& gemm, cudaStream_t stream);

}  // namespace strata::kernels
