// SPDX-License-Identifier: MIT
// The feed-forward branch: an activation between two linear layers, or swiglu with gate and up in one projection.
#pragma once

#include <string>

#include "modules/config/block_config.h"
#include "modules/config/kernel_selection.h"
#include "modules/layer.h"
#include "modules/linear.h"

namespace strata::modules {

class Mlp {
 public:
  Mlp(const ParameterLookup& parameter, const std::string& name, const BlockConfig& config,
      const KernelsConfig& kernels);

  Tensor operator()(const Tensor& x, const StepContext& context) const;  // [..., D] -> [..., D]

 private:
  bool gated_;
  Linear up_, down_;  // up: [2F, D] with the gate first when gated
  kernels::Level activation_level_;
};

}  // namespace strata::modules
