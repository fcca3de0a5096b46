// SPDX-License-Identifier: MIT
// Compares the collectives that the ranks of a group start, so that a mismatch is an error that names both sides
// instead of a hang.
#pragma once

#include <memory>
#include <vector>

#include "sharding/communication/communicator.h"
#include "sharding/communication/host_group.h"

namespace strata::sharding {

// Create one per run. In the first step every collective is preceded by a handshake on the host. Later, the ranks
// compare a hash of their collectives every few steps; a difference is located in the log of those steps.
class CollectiveCheck {
 public:
  explicit CollectiveCheck(int every) : every_(every) {}

  // Wraps `communicator`, so that its collectives are compared. `group` has the same ranks on the host. Communicators
  // that are split from the result are compared too.
  std::unique_ptr<Communicator> with_checks(std::unique_ptr<Communicator> communicator, HostGroup group);

  // All ranks call this after each step.
  void end_step();

  // The collectives of one group.
  class Log;

 private:
  const int every_;
  int64_t step_ = 0;
  std::vector<std::weak_ptr<Log>> logs_;  // in order of creation, which is the same on all ranks
};

}  // namespace strata::sharding
