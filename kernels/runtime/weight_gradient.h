// SPDX-License-Identifier: MIT
// Where the gradient of a weight goes: returned to autograd, or written straight into a buffer that somebody routed it
// to.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace strata::kernels {

using at::Tensor;

// Undefined `into` means "return it". Otherwise the kernel writes `into` (add == false: the first writer overwrites, so
// that buffers need no clearing) or adds to it, and returns nothing. `into` may have another dtype than the weight.
struct WeightGradient {
  Tensor into;
  bool add = false;
};

// Called once for every gradient that an op's backward is about to produce for the weight.
using WeightGradientTarget = std::function<WeightGradient()>;

// From now on gradients of `weight` (a leaf) go where `target` says.
void route_weight_gradient(const Tensor& weight, WeightGradientTarget target);
void unroute_weight_gradient(const Tensor& weight);

// What the backward of an op asks for each weight. {} when nothing is routed.
WeightGradient claim_weight_gradient(const Tensor& weight);

// For levels that autograd differentiates: an alias of `weight` whose gradient is delivered as above.
Tensor deliver_weight_gradient(const Tensor& weight);

// Writes or adds `gradient` as `where` says and returns an undefined tensor; returns `gradient` where nothing is
// routed.
Tensor deliver(const Tensor& gradient, const WeightGradient& where);

}  // namespace strata::kernels
