// SPDX-License-Identifier: MIT
// With STRATA_ARCHITECTURE=80, a test runs the code for GPUs from compute capability 8.0 on, and nothing else. With
// STRATA_MULTIPROCESSORS=108, grids and workspaces are those of an A100, whatever the GPU has.
#pragma once

#include <cstdlib>

#include "kernels/cuda/multiprocessors.h"
#include "kernels/runtime/gpus.h"

namespace strata::kernels {

// Both are set before the runs of a test that includes this are listed.
[[maybe_unused]] inline const bool kIsAsked = [] {
  const char *architecture = std::getenv("STRATA_ARCHITECTURE"), *count = std::getenv("STRATA_MULTIPROCESSORS");
  if (architecture != nullptr) set_architecture(std::atoi(architecture));
  if (count != nullptr) set_multiprocessors(std::atoi(count));
  return architecture != nullptr || count != nullptr;
}();

// True if such code is there for a Hopper GPU, or the code for Hopper if none is asked for.
inline bool is_asked_for(const Gpus& gpus) { return gpus.has(chosen_capability(kHopper.oldest)); }

}  // namespace strata::kernels
