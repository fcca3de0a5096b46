// SPDX-License-Identifier: MIT
// The work of a run beside a captured step is rehearsed before the capture: at a time when no memory is cached, and a
// rehearsal that finds no memory leaves the step as it was.
#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>

#include <optional>

#include "sharding/process/gpu_watch.h"
#include "sharding/process/watchdog.h"
#include "trainer/memory/device_memory.h"
#include "trainer/step/captured_step.h"

namespace strata::trainer {
namespace {

constexpr int64_t kBytes = int64_t{1} << 28;

class Rehearsal : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "not run: there is no GPU";
    device_ = at::Device(at::kCUDA, c10::cuda::current_device());
    stream_.emplace(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device_.index()));
    watch_.emplace(watchdog_);
    step_.emplace(*watch_);
    steps_ = at::zeros({1}, at::TensorOptions(device_));
  }

  at::Tensor memory(int64_t bytes) const { return at::empty({bytes}, at::TensorOptions(at::kByte).device(device_)); }
  int64_t cached() const {
    constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device_.index());
    return stats.reserved_bytes[kAll].current - stats.allocated_bytes[kAll].current;
  }
  void capture(const std::function<void()>& rehearse) {
    step_->capture(rehearse, [this] {
      memory(kBytes);
      steps_.add_(1);
    });
  }
  float steps_done() const { return steps_.item<float>(); }

  sharding::Watchdog watchdog_{/*timeout_seconds=*/60};
  at::Device device_ = at::kCPU;
  std::optional<c10::cuda::CUDAStreamGuard> stream_;
  std::optional<sharding::GpuWatch> watch_;
  std::optional<CapturedStep> step_;
  at::Tensor steps_;
};

TEST_F(Rehearsal, ComesBeforeTheCaptureAndFindsNoCachedMemory) {
  memory(kBytes);  // memory of an eager step
  EXPECT_GE(cached(), kBytes);
  int rehearsals = 0;
  capture([&] {
    ++rehearsals;
    EXPECT_FALSE(step_->is_captured());
    EXPECT_LT(cached(), kBytes);
    steps_.add_(10);  // runs at once, because nothing is captured yet
    EXPECT_EQ(steps_done(), 10);
  });
  for (int i = 0; i < 3; ++i) step_->replay();
  EXPECT_EQ(steps_done(), 13);
  EXPECT_EQ(rehearsals, 1);
}

// Its memory stays cached, so it is there for the work itself when the captured step holds its own.
TEST_F(Rehearsal, LeavesItsMemoryToTheWorkBesideTheCapturedStep) {
  capture([this] { memory(2 * kBytes); });
  const int64_t before = device_allocations(device_);
  memory(2 * kBytes);
  EXPECT_EQ(device_allocations(device_), before);
}

// Another step can be captured after a release, and a replay is that of the last capture.
TEST_F(Rehearsal, ComesBeforeEachCapture) {
  int rehearsals = 0;
  capture([&] { ++rehearsals; });
  step_->replay();
  step_->release();
  EXPECT_FALSE(step_->is_captured());
  step_->capture(
      [&] {
        ++rehearsals;
        EXPECT_LT(cached(), kBytes) << "the memory of the step before is free";
      },
      [this] { steps_.add_(100); });
  for (int i = 0; i < 2; ++i) step_->replay();
  EXPECT_EQ(steps_done(), 201);
  EXPECT_EQ(rehearsals, 2);
}

TEST_F(Rehearsal, ThatFindsNoMemoryEndsBeforeTheCapture) {
  const int64_t all = device_memory(device_).total;
  EXPECT_THROW(capture([&] { memory(2 * all); }), c10::OutOfMemoryError);
  EXPECT_FALSE(step_->is_captured());
  steps_.add_(1);  // the stream is not in a capture
  EXPECT_EQ(steps_done(), 1);
  capture([] {});
  step_->replay();
  EXPECT_EQ(steps_done(), 2);
}

}  // namespace
}  // namespace strata::trainer
