// SPDX-License-Identifier: MIT
// The loop over chunks of rows that levels aten and cuda of linear_cross_entropy share.
#pragma once

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "kernels/linear_cross_entropy/linear_cross_entropy.h"

namespace strata::kernels {

// How a level multiplies. logits = rows weight^T; hidden = gradient weight; weight_sum = gradient^T rows, or += where
// `add`.
struct HeadProducts {
  void (*logits)(const Tensor& logits, const Tensor& rows, const Tensor& weight);
  void (*hidden_gradient)(const Tensor& hidden, const Tensor& gradient, const Tensor& weight);
  void (*weight_gradient)(const Tensor& weight_sum, const Tensor& gradient, const Tensor& rows, bool add);
  // The classes are filled up to a multiple of this with some that are not there.
  int64_t classes_multiple = 1;
};

// Products are fast from some thousand rows on: up to 2 GiB of bf16 logits on a GPU, 64 MiB of fp32 on a CPU. Chunks of
// one size, whole tiles of 128 rows: a short one at the end would be slow.
inline int64_t rows_at_a_time(const Tensor& hidden, const Tensor& weight) {
  const int64_t elements = int64_t{1} << (weight.is_cuda() ? 30 : 24);
  const int64_t most = std::max<int64_t>(elements / weight.size(0) / 128, 1);
  const int64_t tiles = std::max<int64_t>((hidden.size(0) + 127) / 128, 1), chunks = (tiles + most - 1) / most;
  return (tiles + chunks - 1) / chunks * 128;
}

inline LinearCrossEntropyOp::Output head_in_chunks(const Tensor& hidden, const Tensor& weight, const Tensor& targets,
                                                   const Tensor& scale, const CrossEntropyOp::Rule& rule,
                                                   bool with_gradient, const HeadProducts& products,
                                                   CrossEntropyOp::Forward* cross_entropy, int64_t rows_at_a_time) {
  const int64_t rows = hidden.size(0), chunk = std::min(rows_at_a_time, rows);
  const auto wide = hidden.options().dtype(hidden.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  LinearCrossEntropyOp::Output output = {at::zeros({}, wide), {}, {}};
  // A class that is not there has weights of 0 and then the lowest logit: it adds nothing to the sum of exponentials
  // and gets no gradient. Only label smoothing would give it a share of the target.
  const int64_t classes = weight.size(0), multiple = rule.label_smoothing > 0 ? 1 : products.classes_multiple;
  const int64_t missing = (multiple - classes % multiple) % multiple;
  const Tensor all_weights = missing == 0 ? weight : at::constant_pad_nd(weight, {0, 0, 0, missing});
  const double lowest = hidden.scalar_type() == at::kHalf ? -65504.0 : -1e38;
  Tensor weight_gradient;
  if (with_gradient) {
    output.hidden_gradient = at::empty(hidden.sizes(), hidden.options());
    weight_gradient = rows > 0 ? at::empty(all_weights.sizes(), wide) : at::zeros(all_weights.sizes(), wide);
    output.weight_gradient = weight_gradient.narrow(0, 0, classes);
  }
  const Tensor memory = at::empty({chunk, classes + missing}, hidden.options());
  for (int64_t first = 0; first < rows; first += chunk) {
    const int64_t count = std::min(chunk, rows - first);
    const Tensor part = hidden.narrow(0, first, count), logits = memory.narrow(0, 0, count);
    products.logits(logits, part, all_weights);
    if (missing > 0) logits.narrow(1, classes, missing).fill_(lowest);
    const auto [loss, gradient] = cross_entropy(logits, targets.narrow(0, first, count), scale, rule, with_gradient);
    output.loss.add_(loss);
    if (!with_gradient) continue;
    products.hidden_gradient(output.hidden_gradient.narrow(0, first, count), gradient, all_weights);
    products.weight_gradient(weight_gradient, gradient, part, /*add=*/first > 0);
  }
  return output;
}

}  // namespace strata::kernels
