// SPDX-License-Identifier: MIT
// For tests: checks that the host does not wait for the GPU in a step and that the step allocates no memory from the
// driver.
#pragma once

#include <c10/cuda/CUDAFunctions.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "base/errors.h"
#include "trainer/memory/device_memory.h"

namespace strata::trainer {

// Checks only on a GPU with STRATA_STRICT_STEPS=1 in the environment. In its scope, a LibTorch call that waits throws.
class StrictStepGuard {
 public:
  StrictStepGuard(c10::Device device, bool may_wait, bool may_allocate) : device_(device) {
    const bool watches = device.is_cuda() && is_requested();
    no_waits_ = watches && !may_wait;
    no_allocations_ = watches && !may_allocate;
    if (no_allocations_) allocations_before_ = device_allocations(device_);
    set(c10::cuda::SyncDebugMode::L_ERROR);
  }
  ~StrictStepGuard() { set(c10::cuda::SyncDebugMode::L_DISABLED); }
  StrictStepGuard(const StrictStepGuard&) = delete;
  StrictStepGuard& operator=(const StrictStepGuard&) = delete;

  // Throws if memory was allocated from the driver since the construction.
  void check_allocations() const {
    const int64_t new_allocations = no_allocations_ ? device_allocations(device_) - allocations_before_ : 0;
    if (new_allocations == 0) return;
    throw Error(ExitCode::internal, "the step called cudaMalloc " + std::to_string(new_allocations) +
                                        " times, and all its memory should have been there from earlier steps");
  }

 private:
  static bool is_requested() {
    const char* text = std::getenv("STRATA_STRICT_STEPS");
    return text != nullptr && std::string_view(text) == "1";
  }
  void set(c10::cuda::SyncDebugMode mode) const {
    if (no_waits_) c10::cuda::warning_state().set_sync_debug_mode(mode);
  }

  const c10::Device device_;
  bool no_waits_ = false, no_allocations_ = false;
  int64_t allocations_before_ = 0;
};

}  // namespace strata::trainer
