// SPDX-License-Identifier: MIT
// The feed-forward branch: an activation between two linear layers, or swiglu with gate and up in one projection.
#pragma once

#include "modules/config/block_config.h"
#include "modules/layer.h"
#include "modules/linear.h"
#include "modules/scope.h"

namespace strata::modules {

class Mlp {
 public:
  Mlp(const Scope& scope, const BlockConfig& config);

  Tensor operator()(const Tensor& x, const StepContext& context) const;  // [..., D] -> [..., D]

 private:
  bool gated_;
  Linear up_, down_;                 // up: [2F, D] with the gate first, if gated
  kernels::Level activation_level_;  // level of swiglu
};

}  // namespace strata::modules
