// SPDX-License-Identifier: MIT
#include "trainer/memory/allocation_meter.h"

#include <c10/core/Allocator.h>

#include <algorithm>
#include <mutex>

namespace strata::trainer {

// Receives the reports of LibTorch's allocators: the size of a block that was allocated, and its negative when it is
// freed.
class AllocationMeter::Listener : public c10::MemoryReportingInfoBase {
 public:
  explicit Listener(c10::Device device) : device_(device) {}

  void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device device) override {
    if (device != device_) return;
    const std::lock_guard lock(mutex_);
    now_ += bytes;
    if (bytes > 0) {
      ++allocations_;
      allocated_bytes_ += bytes;
    }
    most_ = std::max(most_, now_);
  }
  bool memoryProfilingEnabled() const override { return true; }

  int64_t now() const {
    const std::lock_guard lock(mutex_);
    return now_;
  }
  int64_t most() const {
    const std::lock_guard lock(mutex_);
    return most_;
  }
  void forget_most() {
    const std::lock_guard lock(mutex_);
    most_ = now_;
  }
  int64_t allocations() const {
    const std::lock_guard lock(mutex_);
    return allocations_;
  }
  int64_t allocated_bytes() const {
    const std::lock_guard lock(mutex_);
    return allocated_bytes_;
  }

 private:
  const c10::Device device_;
  mutable std::mutex mutex_;
  int64_t now_ = 0, most_ = 0, allocations_ = 0, allocated_bytes_ = 0;
};

AllocationMeter::AllocationMeter(c10::Device device)
    : listener_(std::make_shared<Listener>(device)),
      guard_(std::make_unique<c10::DebugInfoGuard>(c10::DebugInfoKind::PROFILER_STATE, listener_)) {}

AllocationMeter::~AllocationMeter() = default;

int64_t AllocationMeter::now() const { return listener_->now(); }
int64_t AllocationMeter::most() const { return listener_->most(); }
void AllocationMeter::forget_most() { listener_->forget_most(); }
int64_t AllocationMeter::allocations() const { return listener_->allocations(); }
int64_t AllocationMeter::allocated_bytes() const { return listener_->allocated_bytes(); }

}  // namespace strata::trainer
