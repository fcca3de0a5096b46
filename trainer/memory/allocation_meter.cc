// SPDX-License-Identifier: MIT
#include "trainer/memory/allocation_meter.h"

#include <c10/core/Allocator.h>
#include <c10/util/Exception.h>

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
    counts_.current_bytes += bytes;
    if (bytes > 0) {
      ++counts_.allocations;
      counts_.allocated_bytes += bytes;
    }
    counts_.peak_bytes = std::max(counts_.peak_bytes, counts_.current_bytes);
  }
  bool memoryProfilingEnabled() const override { return true; }

  AllocationCounts counts() const {
    const std::lock_guard lock(mutex_);
    return counts_;
  }
  void reset_peak() {
    const std::lock_guard lock(mutex_);
    counts_.peak_bytes = counts_.current_bytes;
  }

 private:
  const c10::Device device_;
  mutable std::mutex mutex_;
  AllocationCounts counts_;
};

AllocationMeter::AllocationMeter(c10::Device device) : listener_(std::make_shared<Listener>(device)) {
  constexpr auto kPlace = c10::DebugInfoKind::PROFILER_STATE;
  TORCH_CHECK(c10::ThreadLocalDebugInfo::get(kPlace) == nullptr,
              "AllocationMeter: a profiler or another meter has the reports of this thread, expected none");
  guard_ = std::make_unique<c10::DebugInfoGuard>(kPlace, listener_);
}

AllocationMeter::~AllocationMeter() = default;

AllocationCounts AllocationMeter::counts() const { return listener_->counts(); }
void AllocationMeter::reset_peak() { listener_->reset_peak(); }

}  // namespace strata::trainer
