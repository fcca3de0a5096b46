// SPDX-License-Identifier: MIT
#include "trainer/checkpoint/rollbacks.h"

#include <algorithm>

#include "base/errors.h"

namespace strata::trainer {

bool Rollbacks::start(int64_t step, bool has_checkpoint) {
  if (std::find(steps_.begin(), steps_.end(), step) != steps_.end()) return false;
  if (steps_.size() == kMost) {
    throw Error(ExitCode::numerics, "step " + std::to_string(step) +
                                        ": the loss or a gradient is not finite, and the run went back to a "
                                        "checkpoint " +
                                        std::to_string(kMost) +
                                        " times before, each time because of another step; test the GPUs and the "
                                        "memory of the hosts, and start the run again without those that fail");
  }
  steps_.push_back(step);
  needs_checkpoint_ = has_checkpoint;
  return true;
}

std::string Rollbacks::warning() const {
  return "step " + std::to_string(last_step()) + ": the loss or a gradient is not finite; the run goes back to " +
         (needs_checkpoint_ ? "its newest checkpoint" : "step 0, because it has no checkpoint yet");
}

}  // namespace strata::trainer
