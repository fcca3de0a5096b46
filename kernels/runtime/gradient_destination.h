// SPDX-License-Identifier: MIT
// Destinations of weight gradients: a gradient is returned to autograd, or written directly into a buffer that was
// registered for the weight.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace strata::kernels {

using at::Tensor;

// The destination of one gradient. If `into` is undefined, the gradient is returned to autograd. Otherwise the kernel
// writes `into` (add == false) or adds to it, and returns an undefined tensor. The first writer overwrites, so buffers
// need no clearing. `into` may have another dtype than the weight.
struct GradientDestination {
  Tensor into;
  bool add = false;
};

// A function that returns the destination. It is called once for every gradient that a backward is about to compute.
using GradientDestinationSource = std::function<GradientDestination()>;

// Registers `destination` for the gradients of `weight`, which must be a leaf. Replaces an earlier registration.
void set_gradient_destination(const Tensor& weight, GradientDestinationSource destination);
void clear_gradient_destination(const Tensor& weight);

// Called by the backward of an op, once for each weight: the next call returns add == true. Returns {} if no
// destination is registered or the weight is undefined.
GradientDestination take_gradient_destination(const Tensor& weight);

// Returns an alias of `weight` whose gradient goes to the registered destination. Used at levels that autograd
// differentiates.
Tensor with_gradient_destination(const Tensor& weight);

// Writes or adds `gradient` to `where.into` and returns an undefined tensor. Returns `gradient` if `into` is undefined.
Tensor accumulate(const Tensor& gradient, const GradientDestination& where);

}  // namespace strata::kernels
