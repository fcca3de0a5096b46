// SPDX-License-Identifier: MIT
// Recomputation of a cheap tensor: its memory is released after the forward, and the backward recomputes it.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace strata::modules {

using at::Tensor;

// A mark in the step's context: outputs of norms and activations are recomputed, not saved for backward.
struct SelectiveRecompute {};

struct RecomputedTensor {
  Tensor value;
  Tensor source;                                          // the input of `make`, which stays in memory in any case
  std::function<Tensor(const Tensor& source)> make = {};  // must return the same bits and layout as `value`
};

// Returns use(value), whose backward needs `value`. The memory of `value` is released after the forward and filled
// again before that backward, so nothing else may read it in between. `value` and what `use` saved of it share a
// storage. Only the data pointer of the storage changes, so autograd does not notice. If `use` saved nothing of
// `value`, as a product in FP8, which saves codes, nothing is recomputed.
Tensor use_recomputed(const RecomputedTensor& cheap, const std::function<Tensor(const Tensor& value)>& use);

}  // namespace strata::modules
