// SPDX-License-Identifier: MIT
// The one fault that a test asks for (`fault:` in the configuration): at one step, on one rank.
#pragma once

#include <cstdint>
#include <string>

#include "modules/layer.h"
#include "sharding/communication/communicator.h"
#include "sharding/parameters/sharded_parameter_group.h"
#include "trainer/config/fault_config.h"

namespace strata::trainer {

class FaultInjection {
 public:
  // `communicator` is where an additional collective goes.
  FaultInjection(const FaultConfig& config, int rank, sharding::Communicator& communicator);

  void begin_step(int64_t step) { now_ = armed_ && step == step_; }

  // In the middle of the forward of a layer: kill, hang, exception, an additional collective.
  modules::Layer around(modules::Layer layer);
  // nan: into the first element of the group's first gradient, before it is reduced.
  void before_reduce(sharding::ShardedParameterGroup& group);

 private:
  void strike();

  Fault kind_;
  sharding::Communicator& communicator_;
  bool armed_ = false, now_ = false;  // on this rank; in this step
  int64_t step_ = 0;
};

}  // namespace strata::trainer
