// SPDX-License-Identifier: MIT
// For tests: in its scope a call of LibTorch that makes the host wait for the GPU is an error.
#pragma once

#include <c10/cuda/CUDAFunctions.h>

#include <cstdlib>
#include <string_view>

namespace strata::trainer {

// Does nothing unless the environment has STRATA_REFUSE_WAITS=1.
class RefuseWaits {
 public:
  explicit RefuseWaits(bool on_gpu) : active_(on_gpu && asked_for()) { set(c10::cuda::SyncDebugMode::L_ERROR); }
  ~RefuseWaits() { set(c10::cuda::SyncDebugMode::L_DISABLED); }
  RefuseWaits(const RefuseWaits&) = delete;
  RefuseWaits& operator=(const RefuseWaits&) = delete;

 private:
  static bool asked_for() {
    const char* text = std::getenv("STRATA_REFUSE_WAITS");
    return text != nullptr && std::string_view(text) == "1";
  }
  void set(c10::cuda::SyncDebugMode mode) const {
    if (active_) c10::cuda::warning_state().set_sync_debug_mode(mode);
  }
  const bool active_;
};

}  // namespace strata::trainer
