// SPDX-License-Identifier: MIT
// head_in_chunks: the loop over chunks of rows of linear_cross_entropy, for levels aten, aot_inductor and cuda.
#pragma once

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <functional>

#include "kernels/linear_cross_entropy/head_chunks.h"
#include "kernels/linear_cross_entropy/linear_cross_entropy.h"
#include "kernels/runtime/traced.h"

namespace strata::kernels {

// The matrix products of a level: logits = rows weight^T; hidden = gradient weight; weight_sum = gradient^T rows, or
// weight_sum += gradient^T rows with `add`.
struct HeadProducts {
  std::function<void(const Tensor& logits, const Tensor& rows, const Tensor& weight)> logits;
  void (*hidden_gradient)(const Tensor& hidden, const Tensor& gradient, const Tensor& weight);
  void (*weight_gradient)(const Tensor& weight_sum, const Tensor& gradient, const Tensor& rows, bool add);
};

inline int64_t rows_at_a_time(const Tensor& hidden, const Tensor& weight) {
  return rows_at_a_time(hidden.size(0), weight.size(0), on_gpu(weight));
}

inline LinearCrossEntropyOp::Output head_in_chunks(const Tensor& hidden, const Tensor& weight, const Tensor& targets,
                                                   const Tensor& scale, const CrossEntropyOp::Rule& rule,
                                                   bool with_gradient, const HeadProducts& products,
                                                   const std::function<CrossEntropyOp::Forward>& cross_entropy,
                                                   int64_t rows_at_a_time) {
  const int64_t rows = hidden.size(0), chunk = std::min(rows_at_a_time, rows);
  const auto wide = hidden.options().dtype(hidden.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  LinearCrossEntropyOp::Output output = {at::zeros({}, wide), {}, {}};
  if (with_gradient) {
    output.hidden_gradient = at::empty(hidden.sizes(), hidden.options());
    output.weight_gradient = rows > 0 ? at::empty(weight.sizes(), wide) : at::zeros(weight.sizes(), wide);
  }
  const Tensor memory = at::empty({chunk, weight.size(0)}, hidden.options());
  for (int64_t first = 0; first < rows; first += chunk) {
    const int64_t count = std::min(chunk, rows - first);
    const Tensor part = hidden.narrow(0, first, count), logits = memory.narrow(0, 0, count);
    products.logits(logits, part, weight);
    const auto [loss, gradient] = cross_entropy(logits, targets.narrow(0, first, count), scale, rule, with_gradient);
    output.loss.add_(loss);
    if (!with_gradient) continue;
    products.hidden_gradient(output.hidden_gradient.narrow(0, first, count), gradient, weight);
    products.weight_gradient(output.weight_gradient, gradient, part, /*add=*/first > 0);
  }
  return output;
}

}  // namespace strata::kernels
