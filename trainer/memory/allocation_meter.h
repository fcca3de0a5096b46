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
  int64_t now = 0;              // bytes that are not yet freed
  int64_t most = 0;             // the largest number of such bytes, since forget_most() if that was called
  int64_t allocations = 0;      // blocks, freed or not
  int64_t allocated_bytes = 0;  // their bytes
};

// Counts allocations of the thread that made it and of the backwards that this thread starts. It and LibTorch's
// profiler refuse each other, and so do two meters of a thread. LibTorch reports allocations to the object at one place
// of the thread. A profiler takes what it finds at that place for its own state, so no meter there can pass reports on
// to it.
class AllocationMeter {
 public:
  // Throws a c10::Error if a profiler or another meter is at that place.
  explicit AllocationMeter(c10::Device device);
  ~AllocationMeter();

  // All of them are of one moment.
  AllocationCounts counts() const;
  // Starts AllocationCounts::most again at the bytes of now.
  void forget_most();

 private:
  class Listener;
  std::shared_ptr<Listener> listener_;
  std::unique_ptr<c10::DebugInfoGuard> guard_;
};

}  // namespace strata::trainer
