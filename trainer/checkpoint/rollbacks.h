// SPDX-License-Identifier: MIT
// The steps because of which a run went back to a checkpoint. They are known beyond the end of a Trainer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace strata::trainer {

class Rollbacks {
 public:
  // A step is rolled back once, so only a machine with fault after fault comes here. Each costs up to
  // checkpoint.every steps.
  static constexpr size_t kMost = 100;

  // Returns true if the run goes back because of `step`, which is not finite, and false if it went back because of this
  // step before: then the fault does not pass. `has_checkpoint`: a checkpoint of the run is on the disk. Throws Error
  // (numerics) after kMost rollbacks. All ranks call it with the same values.
  bool start(int64_t step, bool has_checkpoint);

  bool any() const { return !steps_.empty(); }
  int64_t last_step() const { return steps_.back(); }  // the step that was not finite
  // Says why the run goes back, and to which step.
  std::string warning() const;
  // True if the run must find a checkpoint now. If it has lost them, it must not begin anew at step 0.
  bool needs_checkpoint() const { return needs_checkpoint_; }

 private:
  std::vector<int64_t> steps_;
  bool needs_checkpoint_ = false;
};

}  // namespace strata::trainer
