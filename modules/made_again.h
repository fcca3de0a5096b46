// SPDX-License-Identifier: MIT
// Recomputation of a cheap tensor: its memory is released after the forward, and the backward recomputes it.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace strata::modules {

using at::Tensor;

// A mark in the step's context: outputs of norms and activations are recomputed, not saved for backward.
struct MakeCheapAgain {};

struct MadeAgain {
  Tensor made;
  Tensor source;                                          // the input of `make`, which stays in memory in any case
  std::function<Tensor(const Tensor& source)> make = {};  // must return the same bits and layout as `made`
};

// Returns use(made), whose backward needs `made`. The memory of `made` is released after the forward and filled again
// before that backward, so nothing else may read it in between. `made` and what `use` saved of it share a storage. Only
// the data pointer of the storage changes, so autograd does not notice.
Tensor use_without_keeping(const MadeAgain& cheap, const std::function<Tensor(const Tensor& made)>& use);

}  // namespace strata::modules
