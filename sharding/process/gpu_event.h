// SPDX-License-Identifier: MIT
// GpuEvent: a CUDA event without timing.
#pragma once

#include <cuda_runtime_api.h>

namespace strata::sharding {

// block(stream) makes the stream wait for the last record. The event can be recorded again at once: the stream
// still waits for the earlier record.
class GpuEvent {
 public:
  GpuEvent();
  ~GpuEvent();
  GpuEvent(const GpuEvent&) = delete;
  GpuEvent& operator=(const GpuEvent&) = delete;
  void record(cudaStream_t stream);
  void block(cudaStream_t stream) const;
  void wait_on_host() const;  // sleeps instead of spinning
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace strata::sharding
