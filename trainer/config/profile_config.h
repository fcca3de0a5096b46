// SPDX-License-Identifier: MIT
// The `profile:` section: the steps to profile.
#pragma once

#include <optional>

#include "configs/range.h"

namespace strata::trainer {

struct ProfileConfig {
  std::optional<configs::Range> steps = {};  // absent: none

  template <class Fields>
  void describe(Fields& fields) {
    fields.add_or_word("steps", steps, "none",
                       "steps to profile, such as 10-20: every kernel is timed, and the results are written to "
                       "<run.folder>/profile; none: no profile",
                       "steps");
  }
};

}  // namespace strata::trainer
