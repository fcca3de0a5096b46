// SPDX-License-Identifier: MIT
// Counts the bytes that tensors take on one device while it lives: now, and at most.
#pragma once

#include <c10/core/Device.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <cstdint>
#include <memory>

namespace strata::trainer {

// Counts allocations of the thread that made it and of the backwards that this thread starts. It cannot be used while a
// profiler runs, because LibTorch has one place for the two.
class AllocationMeter {
 public:
  explicit AllocationMeter(c10::Device device);
  ~AllocationMeter();

  // Bytes that were allocated since the construction and are not yet freed.
  int64_t now() const;
  int64_t most() const;
  // Starts most() again at now().
  void forget_most();

 private:
  class Listener;
  std::shared_ptr<Listener> listener_;
  std::unique_ptr<c10::DebugInfoGuard> guard_;
};

}  // namespace strata::trainer
