// SPDX-License-Identifier: MIT
// embedding: y[i] = weight[indices[i]]. The gradient of weight sums over equal indices, in the same order every time.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "kernels/runtime/gradient_destination.h"
#include "kernels/runtime/kernel_table.h"

namespace strata::kernels {

// embedding(indices, weight, level): y[i] = weight[indices[i]]
//
// indices int64 [...], weight [V, D] -> y [..., D] with the dtype of weight. Saves indices and weight for backward.
// Throws a ValueError if a shape, dtype or device does not match. An index outside [0, V) is an error, except at level
// triton, where it gives a row of NaN.
Tensor embedding(const Tensor& indices, const Tensor& weight, Level level);

struct EmbeddingOp {
  static constexpr std::string_view kName = "embedding";
  using Forward = Tensor(const Tensor& indices, const Tensor& weight);
  // Returns the gradient of weight, or an undefined tensor if it was written into a buffer.
  using Backward = Tensor(const Tensor& grad_y, const Tensor& indices, int64_t vocabulary,
                          const GradientDestination& into);
  static const KernelTable<EmbeddingOp> kKernels;
};

EmbeddingOp::Forward embedding_forward_cuda;
EmbeddingOp::Backward embedding_backward_cuda;
EmbeddingOp::Forward embedding_forward_triton;
EmbeddingOp::Backward embedding_backward_triton;

using EmbeddingOps = OpList<EmbeddingOp>;

}  // namespace strata::kernels
