// SPDX-License-Identifier: MIT
// A tensor that is cheap to make and not kept from the forward to the backward: it is made again when it is needed.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace strata::modules {

using at::Tensor;

// In the context of a step: outputs of norms and activations are not kept for the backward.
struct MakeCheapAgain {};

struct MadeAgain {
  Tensor made;
  Tensor source;                                          // what it was made of; kept by somebody in any case
  std::function<Tensor(const Tensor& source)> make = {};  // equals `made` bit for bit, and is laid out alike
};

// use(made), whose backward needs `made`. The memory of `made` is given back afterwards and filled again in front of
// that backward: nobody else may read it in between. `made` and whatever `use` saved of it share a storage, whose data
// pointer goes and comes; autograd sees nothing of it.
Tensor use_without_keeping(const MadeAgain& cheap, const std::function<Tensor(const Tensor& made)>& use);

}  // namespace strata::modules
