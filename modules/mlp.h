// SPDX-License-Identifier: MIT
// The feed-forward branch: an activation between two linear layers, or swiglu with gate and up in one projection.
#pragma once

#include <cstdint>

#include "modules/config/block_config.h"
#include "modules/layer.h"
#include "modules/linear.h"
#include "modules/scope.h"

namespace strata::modules {

class Mlp {
 public:
  struct Options {
    int64_t inputs, feed_forward, outputs;
    bool gated = false;  // true: swiglu, whose gate has `activation`; false: `activation` between the two layers
    bool has_biases = true;
    kernels::Activation activation = kernels::Activation::none;
    kernels::Activation last_activation = kernels::Activation::none;  // the epilogue of the second layer
    Initialization inner_initialization = Initialization::normal;
    Initialization last_initialization = Initialization::normal;
  };
  Mlp(const Scope& scope, const Options& options);
  Mlp(const Scope& scope, const BlockConfig& config);

  Tensor operator()(const Tensor& x, const StepContext& context) const;  // [..., inputs] -> [..., outputs]

  // A step of generation: the first product normalizes its input, if can_fuse_norm(x). `sum` is what it normalizes.
  bool can_fuse_norm(const Tensor& x) const { return gated_ && up_.can_fuse_norm(x); }
  kernels::ProductOfNorm forward_from_unnormed(const kernels::NormedInput& input) const;

 private:
  bool gated_;
  kernels::Activation activation_;
  bool is_epilogue_;                 // the first layer ends in the activation
  Linear up_, down_;                 // up: [2F, D] with the gate first, if gated
  kernels::Level activation_level_;  // level of swiglu, or of an activation that is no epilogue
};

}  // namespace strata::modules
