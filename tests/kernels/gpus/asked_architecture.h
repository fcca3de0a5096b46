// SPDX-License-Identifier: MIT
// With STRATA_ARCHITECTURE=80, a test runs the code for GPUs from compute capability 8.0 on, and nothing else. With
// STRATA_MULTIPROCESSORS=108, grids and workspaces are those of an A100, whatever the GPU has.
#pragma once

#include <cstdlib>

#include "kernels/cuda/multiprocessors.h"
#include "kernels/runtime/gpus.h"

namespace strata::kernels {

// Sets both before GoogleTest lists the cases of a test that includes this.
[[maybe_unused]] inline const bool kIsAsked = [] {
  const char *architecture = std::getenv("STRATA_ARCHITECTURE"), *count = std::getenv("STRATA_MULTIPROCESSORS");
  if (architecture != nullptr) set_architecture(std::atoi(architecture));
  if (count != nullptr) set_multiprocessors(std::atoi(count));
  return architecture != nullptr || count != nullptr;
}();

// True if `gpus` has the architecture of STRATA_ARCHITECTURE, or 9.0 if that is not set.
inline bool is_asked_for(const GpuRange& gpus) { return gpus.has(chosen_capability(kHopper.oldest)); }

}  // namespace strata::kernels
