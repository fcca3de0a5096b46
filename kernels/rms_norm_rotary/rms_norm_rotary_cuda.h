// SPDX-License-Identifier: MIT
// The launchers of rms_norm_rotary.cu. They take raw pointers, sizes and a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/cuda_type.h"
#include "kernels/cuda/weight_gradient.h"

namespace strata::kernels {

// The arguments that forward and backward read. Tensors are contiguous and of `type` unless noted.
struct RmsNormRotaryInputs {
  CudaType type;
  const void* qkv;                        // [rows, heads + 2 * key_value_heads, head_width]
  const void *query_weight, *key_weight;  // [head_width]
  const float *cosine, *sine;             // [positions, head_width / 2]; row r of qkv is at position r % positions
  int64_t rows, positions;
  int heads, key_value_heads, head_width;
  float eps;
};

// The blocks of a backward. A block has heads of queries or of keys, never both, and one row of partial sums.
struct RmsNormRotaryBlocks {
  int64_t queries, keys;
  int64_t heads_of_block;  // heads of a block, from any rows
};

// A block has enough heads to make its row of partial sums a small part of what it moves. There are more blocks than
// run at once, so that a multiprocessor that another kernel holds does not delay the others.
inline RmsNormRotaryBlocks rms_norm_rotary_blocks(int64_t rows, int64_t heads, int64_t key_value_heads) {
  constexpr int64_t kFewestHeads = 128, kMostBlocks = 1024;
  const auto ceil_divide = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  const int64_t block_heads = std::max(kFewestHeads, ceil_divide(rows * (heads + key_value_heads), kMostBlocks));
  return {ceil_divide(rows * heads, block_heads), ceil_divide(rows * key_value_heads, block_heads), block_heads};
}

struct RmsNormRotaryBackward {
  RmsNormRotaryInputs in;
  // Gradient of the result, [rows, heads + 2 * key_value_heads, head_width]; becomes the gradient of qkv.
  void* gradient;
  float* partials;  // workspace [blocks.queries + blocks.keys, head_width]
  RmsNormRotaryBlocks blocks;
  WeightGradient query, key;
};

using RmsNormRotaryForwardLauncher = cudaError_t(const RmsNormRotaryInputs& in, void* y, cudaStream_t stream);
using RmsNormRotaryBackwardLauncher = cudaError_t(const RmsNormRotaryBackward& arguments, cudaStream_t stream);

// One of each Code.
namespace hopper {
RmsNormRotaryForwardLauncher launch_rms_norm_rotary_forward;
RmsNormRotaryBackwardLauncher launch_rms_norm_rotary_backward;
}  // namespace hopper
namespace portable {
RmsNormRotaryForwardLauncher launch_rms_norm_rotary_forward;
RmsNormRotaryBackwardLauncher launch_rms_norm_rotary_backward;
}  // namespace portable

}  // namespace strata::kernels
