// SPDX-License-Identifier: MIT
// With STRATA_ARCHITECTURE=80, a test runs the code for GPUs from compute capability 8.0 on, and nothing else.
#pragma once

#include <cstdlib>

#include "kernels/runtime/gpus.h"

namespace strata::kernels {

// It is set before the runs of a test that includes this are listed.
[[maybe_unused]] inline const bool kIsAsked = [] {
  const char* asked = std::getenv("STRATA_ARCHITECTURE");
  if (asked != nullptr) set_architecture(std::atoi(asked));
  return asked != nullptr;
}();

// True if such code is there for a Hopper GPU, or the code for Hopper if none is asked for.
inline bool is_asked_for(const Gpus& gpus) { return gpus.has(chosen_capability(kHopper.oldest)); }

}  // namespace strata::kernels
