// SPDX-License-Identifier: MIT
// Compares what the ranks of a group are about to do, so that a mismatch names both sides instead of hanging.
#pragma once

#include <memory>
#include <vector>

#include "sharding/communication/communicator.h"
#include "sharding/communication/host_group.h"

namespace strata::sharding {

// One per run. In the first step every collective is preceded by a handshake on the host; later the ranks compare a
// hash of what they did every few steps, and the first difference is looked up in the log of those steps.
class PlanCheck {
 public:
  explicit PlanCheck(int every) : every_(every) {}

  // `communicator`, compared; `group` are the same ranks on the host. Splitting it gives communicators that are
  // compared too.
  std::unique_ptr<Communicator> compared(std::unique_ptr<Communicator> communicator, HostGroup group);

  // All ranks call it after each step.
  void end_step();

  // The plan of one group.
  class Plan;

 private:
  const int every_;
  int64_t step_ = 0;
  std::vector<std::weak_ptr<Plan>> plans_;  // in order of creation, which is the same on all ranks
};

}  // namespace strata::sharding
