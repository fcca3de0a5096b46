// SPDX-License-Identifier: MIT
// Records the work of host and device with LibTorch's profiler, which gets the times of kernels from CUPTI.
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

  // Starts to record scopes of the calling thread and of autograd's threads that work for it, and all work of the
  // device. NVTX ranges get the names of the scopes.
  void start();
  // Stops recording. The device must be idle, because unfinished work is not recorded.
  Trace stop();
  bool recording() const { return recording_; }

 private:
  const bool on_gpu_;
  bool recording_ = false;
  at::CallbackHandle ranges_ = at::INVALID_CALLBACK_HANDLE;
};

}  // namespace strata::trainer::profile
