// SPDX-License-Identifier: MIT
// Injects the fault of section `fault:`, for tests: in one step on one rank. Fault::slow lasts for all later steps.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "modules/config/parameter_group.h"
#include "modules/layer.h"
#include "sharding/communication/communicator.h"
#include "sharding/parameters/sharded_parameter_group.h"
#include "trainer/config/fault_config.h"

namespace strata::trainer {

class FaultInjection {
 public:
  // `groups` are the groups of the model, and `communicator` is the one on which an additional collective runs.
  FaultInjection(const FaultConfig& config, int rank, const std::vector<modules::ParameterGroup>& groups,
                 sharding::Communicator& communicator);

  // Sleeps if this rank is to be slow, queues a kernel that breaks the GPU, and flips a bit of a weight. Sets what a
  // captured step reads. Call it before parameters are gathered.
  void begin_step(int64_t step, const std::vector<sharding::ShardedParameterGroup*>& groups);

  // Wraps a layer so that a fault strikes in the middle of its forward: kill, hang, exception, an additional
  // collective, a kernel that never ends. Flips a bit of its output.
  modules::Layer wrap_layer(int64_t index, modules::Layer layer);
  // Makes a NaN of the first element of the group's first gradient, before it is reduced, or of this rank's weights.
  // Flips a bit of that gradient.
  void before_reduce(sharding::ShardedParameterGroup& group);
  // Flips a bit of the gradients that this rank's update reads. Call it when all groups are reduced.
  void after_reduce(const std::vector<sharding::ShardedParameterGroup*>& groups);
  // Returns the loss of this rank, or a NaN.
  at::Tensor change(const at::Tensor& loss) const;

 private:
  void inject();

  Fault kind_;
  sharding::Communicator& communicator_;
  bool armed_ = false, now_ = false;  // armed_: the fault is for this rank; now_: it is for this step
  int64_t step_ = 0, layer_ = 0;
  std::string group_;         // parameter group of the layer
  bool has_flipped_ = false;  // in this step, which flips one bit only, also with several micro-batches
  // For nan and nan_loss: the factor of the gradient or the loss, NaN in the step of the fault and 1 in all others.
  // For endless_inside a kernel of the step waits until it is 1. fp32, 0-dim, on the device. A captured step reads it.
  at::Tensor factor_;
};

}  // namespace strata::trainer
