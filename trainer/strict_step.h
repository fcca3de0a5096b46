// SPDX-License-Identifier: MIT
// For tests: a step in which the host must not wait for the GPU, and for which no memory may be asked of the driver.
#pragma once

#include <c10/cuda/CUDAFunctions.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "base/errors.h"
#include "trainer/memory/device_memory.h"

namespace strata::trainer {

// Watches nothing unless the device is a GPU and the environment has STRATA_STRICT_STEPS=1. In its scope a call of
// LibTorch that waits is an error of that call.
class StrictStep {
 public:
  StrictStep(c10::Device device, bool may_wait, bool may_allocate) : device_(device) {
    const bool watches = device.is_cuda() && asked_for();
    no_waits_ = watches && !may_wait;
    no_allocations_ = watches && !may_allocate;
    if (no_allocations_) allocations_ = device_allocations(device_);
    set(c10::cuda::SyncDebugMode::L_ERROR);
  }
  ~StrictStep() { set(c10::cuda::SyncDebugMode::L_DISABLED); }
  StrictStep(const StrictStep&) = delete;
  StrictStep& operator=(const StrictStep&) = delete;

  // Throws when memory was asked for since the beginning.
  void check_allocations() const {
    const int64_t more = no_allocations_ ? device_allocations(device_) - allocations_ : 0;
    if (more == 0) return;
    throw Error(ExitCode::internal, "the step called cudaMalloc " + std::to_string(more) +
                                        " times, and all its memory should have been there from earlier steps");
  }

 private:
  static bool asked_for() {
    const char* text = std::getenv("STRATA_STRICT_STEPS");
    return text != nullptr && std::string_view(text) == "1";
  }
  void set(c10::cuda::SyncDebugMode mode) const {
    if (no_waits_) c10::cuda::warning_state().set_sync_debug_mode(mode);
  }

  const c10::Device device_;
  bool no_waits_ = false, no_allocations_ = false;
  int64_t allocations_ = 0;
};

}  // namespace strata::trainer
