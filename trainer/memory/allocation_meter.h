// SPDX-License-Identifier: MIT
// Counts the allocations of tensors on one device while it lives, and the bytes that they take: now, and at most.
#pragma once

#include <c10/core/Device.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <cstdint>
#include <memory>

namespace strata::trainer {

// What was counted since the meter was constructed.
struct AllocationCounts {
  int64_t current_bytes = 0;    // bytes that are not yet freed
  int64_t peak_bytes = 0;       // the largest current_bytes since the construction or the last reset_peak()
  int64_t allocations = 0;      // blocks, freed or not
  int64_t allocated_bytes = 0;  // their bytes
};

// Counts allocations of the thread that made it and of the backwards that this thread starts. LibTorch has one slot in
// each thread for the object to which allocations are reported. LibTorch's profiler takes the object in this slot for
// its own state, so a meter cannot stand before it and pass reports on. So a meter and a profiler, or two meters,
// exclude each other.
class AllocationMeter {
 public:
  // Throws a c10::Error if the slot of this thread has a profiler or another meter.
  explicit AllocationMeter(c10::Device device);
  ~AllocationMeter();

  // Returns all numbers of one moment.
  AllocationCounts counts() const;
  // Starts AllocationCounts::peak_bytes again at current_bytes.
  void reset_peak();

 private:
  class Listener;
  std::shared_ptr<Listener> listener_;
  std::unique_ptr<c10::DebugInfoGuard> guard_;
};

}  // namespace strata::trainer
