// SPDX-License-Identifier: MIT
// Counts the allocations of tensors on one device while it lives, and the bytes that they take: now, and at most.
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
  // Blocks that were allocated since the construction, and their bytes, freed or not.
  int64_t allocations() const;
  int64_t allocated_bytes() const;

 private:
  class Listener;
  std::shared_ptr<Listener> listener_;
  std::unique_ptr<c10::DebugInfoGuard> guard_;
};

}  // namespace strata::trainer
