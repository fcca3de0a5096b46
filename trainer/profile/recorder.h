// SPDX-License-Identifier: MIT
// Records the work of host and device with LibTorch's profiler, which gets the times of kernels from CUPTI.
#pragma once

#include <ATen/record_function.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/runtime/call_observer.h"
#include "trainer/profile/recording.h"

namespace strata::trainer::profile {

class Recorder : kernels::CallObserver {
 public:
  explicit Recorder(bool on_gpu);
  ~Recorder() override;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Starts to record scopes of the calling thread and of autograd's threads that work for it, all work of the device,
  // and the minimal work of each call of an op. NVTX ranges get the names of the scopes.
  void start();
  // Stops recording. The device must be idle, because unfinished work is not recorded.
  Recording stop();
  bool recording() const { return recording_; }

 private:
  struct WorkOfCall {
    kernels::Work work, backward_work;
  };
  void call(const kernels::OpShape& shape, kernels::Level level, bool backward, at::ScalarType dtype) override;
  void add_work_to(std::vector<Scope>& scopes);

  const bool on_gpu_;
  bool recording_ = false;
  at::CallbackHandle ranges_ = at::INVALID_CALLBACK_HANDLE;
  std::optional<kernels::ObservedCalls> observed_;
  std::map<std::string, std::vector<WorkOfCall>> calls_;  // by the name of their scopes, in the order of their starts
};

}  // namespace strata::trainer::profile
