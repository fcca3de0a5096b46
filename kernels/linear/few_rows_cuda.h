// SPDX-License-Identifier: MIT
// The launcher of few_rows.cu: y = activation(x weight^T + bias) for at most kFewRows rows of x. It reads the
// weight at the rate of the memory, also while the kernel before it is ending. It can normalize x itself.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/activation/activation_kind.h"
#include "kernels/cuda/cuda_type.h"

namespace strata::kernels {

inline constexpr int64_t kFewRows = 8;
// True if the kernel can normalize the rows. The shared memory of a block has 48 KB for the rows, as 1, 2, 4 or 8, and
// for sums. More than 4 rows of fp32 are not normalized, because there are no tensor cores for them.
inline bool are_few_normed_rows(CudaType type, int64_t rows, int64_t inputs) {
  const int64_t held = rows <= 2 ? rows : rows <= 4 ? 4 : 8, row_bytes = inputs * (type == CudaType::float32 ? 4 : 2);
  return rows <= (type == CudaType::float32 ? 4 : kFewRows) && held * row_bytes <= int64_t{43} * 1024;
}

// x [rows, inputs], weight [outputs, inputs], bias [outputs] or null -> y [rows, outputs], all contiguous. x and weight
// are at 16-byte boundaries, and so is each of their rows. pre_activation, like y, or null: x weight^T + bias.
// gated: weight is [2 * outputs, inputs] and bias [2 * outputs], with the gates first, and y is activation(gate) * up.
// There is no pre_activation then. The products are rounded to the type before the activation, as if they were stored.
// norm_weight [inputs]: the product is that of y = rms_norm(sum), where sum = x + branch. branch is like x, or null:
// sum is x then, and not stored. y and sum are rounded to the type, as by op add_rms_norm. Null: the product is that of
// x. The weights are read before the kernel before this one has ended. So the last kernels before this one, back to and
// with one that was not launched by launch_overlapped, must not write them.
struct FewRows {
  CudaType type;
  void *y, *pre_activation;
  const void *x, *weight, *bias;
  Activation activation;
  bool gated;
  int64_t rows, inputs, outputs;
  const void *branch = nullptr, *norm_weight = nullptr;
  void *sum = nullptr;
  float eps = 0;
};

cudaError_t launch_few_rows(const FewRows &arguments, cudaStream_t stream);

}  // namespace strata::kernels
