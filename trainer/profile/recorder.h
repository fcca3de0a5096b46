// SPDX-License-Identifier: MIT
// Records what the host and the device do: LibTorch's profiler, which asks CUPTI for the times of kernels.
#pragma once

#include <ATen/record_function.h>

#include "trainer/profile/trace.h"

namespace strata::trainer::profile {

class Recorder {
 public:
  explicit Recorder(bool on_gpu);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Of the calling thread and of those that autograd runs for it; of the device everything. NVTX ranges have the names
  // of the scopes.
  void start();
  // The device must be idle: what it has not done is not recorded.
  Trace stop();
  bool recording() const { return recording_; }

 private:
  const bool on_gpu_;
  bool recording_ = false;
  at::CallbackHandle ranges_ = at::INVALID_CALLBACK_HANDLE;
};

}  // namespace strata::trainer::profile
