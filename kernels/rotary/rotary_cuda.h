// SPDX-License-Identifier: MIT
// The launcher of rotary.cu. It takes raw pointers, sizes and a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/cuda_type.h"

namespace strata::kernels {

struct RotaryArguments {
  CudaType type;
  void* qkv;                   // [rows, all_heads, head_width], rotated in place
  const float *cosine, *sine;  // [positions, head_width / 2]; row r of qkv is at position r % positions
  int64_t rows, positions;
  int all_heads, rotated_heads, head_width;
  float direction;  // 1, or -1 to rotate back
};

cudaError_t launch_rotary(const RotaryArguments& arguments, cudaStream_t stream);

}  // namespace strata::kernels
