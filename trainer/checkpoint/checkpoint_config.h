// SPDX-License-Identifier: MIT
// The `checkpoint:` section: saving and resuming.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "configs/limits.h"

namespace strata::trainer {

enum class Resume { automatic, require, never };
constexpr std::array<std::string_view, 3> names(Resume) { return {"auto", "require", "never"}; }

struct CheckpointConfig {
  int64_t every = 0;
  int64_t keep = 2;
  int64_t keep_every = 0;
  Resume resume = Resume::automatic;
  std::string initial_weights = {};

  template <class Fields>
  void describe(Fields& fields) {
    fields.add("every", every, "steps between checkpoints; 0: save only after the last step", configs::kNumberOfSteps,
               "steps");
    fields.add("keep", keep, "number of newest checkpoints to keep; at least 2, because one may be damaged",
               configs::between(2, 1e9));
    fields.add("keep_every", keep_every,
               "checkpoints of multiples of this step are never removed: milestones, beside the newest; a multiple of "
               "checkpoint.every; 0: none",
               configs::kNumberOfSteps, "steps");
    fields.add("resume", resume,
               "auto: resume from the newest good checkpoint if there is one; require: resume or refuse to start; "
               "never: start anew");
    fields.add("initial_weights", initial_weights,
               "folder of weights (safetensors) with which a new run starts; empty: random initialization");
  }
};

}  // namespace strata::trainer
