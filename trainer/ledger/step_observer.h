// SPDX-License-Identifier: MIT
// An observer of one step: it wraps the layers, and sees the weights before the step and the gradients in it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "modules/layer.h"
#include "sharding/parameters/sharded_parameter_group.h"

namespace strata::trainer {

class StepObserver {
 public:
  virtual ~StepObserver() = default;

  // From now on steps are watched. Before, begin() does nothing.
  virtual void arm() = 0;
  // Wraps a layer, inside of its sharding: the weights are complete while it computes.
  virtual modules::Layer wrap_layer(int64_t index, modules::Layer layer) = 0;
  // Called before the first forward of a step. `amax` has the modules whose scales are delayed: fp32 [3], the numbers
  // from which the scales of inputs, weight and gradients of outputs follow in this step.
  virtual void begin(const std::vector<sharding::ShardedParameterGroup*>& groups,
                     const std::map<std::string, at::Tensor>& amax) = 0;
  // Called when the gradients of this rank in the group are complete, before they are reduced.
  virtual void gradients(const sharding::ShardedParameterGroup& group) = 0;
  // Called after the backward of each micro-batch, because a layer whose inputs need no gradient does not notice the
  // end of its own.
  virtual void after_backward() = 0;
  // Called after the last backward of a step.
  virtual void end() = 0;
};

}  // namespace strata::trainer
