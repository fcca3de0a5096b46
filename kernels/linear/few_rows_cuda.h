// SPDX-License-Identifier: MIT
// The launcher of few_rows.cu: y = activation(x weight^T + bias) for at most kFewRows rows of x, without tensor cores.
// It reads the weight at the rate of the memory, also while the kernel before it is ending.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/activation/activation_kind.h"
#include "kernels/cuda/cuda_type.h"

namespace strata::kernels {

inline constexpr int64_t kFewRows = 8;

// x [rows, inputs], weight [outputs, inputs], bias [outputs] or null -> y [rows, outputs], all contiguous. x and weight
// are at 16-byte boundaries, and so is each of their rows. pre_activation, like y, or null: x weight^T + bias.
// gated: weight is [2 * outputs, inputs] and bias [2 * outputs], with the gates first, and y is activation(gate) * up.
// There is no pre_activation then. The products are rounded to the type before the activation, as if they were stored.
// The weight and the bias are read before the kernel before this one has ended. So that kernel must not write them.
struct FewRows {
  CudaType type;
  void *y, *pre_activation;
  const void *x, *weight, *bias;
  Activation activation;
  bool gated;
  int64_t rows, inputs, outputs;
};

cudaError_t launch_few_rows(const FewRows &arguments, cudaStream_t stream);

}  // namespace strata::kernels
