// SPDX-License-Identifier: MIT
// Checks what the watch of a GPU reports: work that does not end, work that cannot begin, errors, and nothing else.
// Host functions in a stream stand for slow kernels.
#include <ATen/Context.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "sharding/process/failure.h"
#include "sharding/process/gpu_watch.h"
#include "trainer/faults/fault_kernels.h"

namespace strata::sharding {
namespace {

constexpr double kTimeoutSeconds = 2;

void sleep_for(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

class GpuWatchTest : public testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    if (!at::hasCUDA()) GTEST_SKIP() << "not run: there is no GPU";
    guard_.emplace(c10::cuda::getStreamFromPool());
    stream_ = c10::cuda::getCurrentCUDAStream();
    watch_.emplace(watchdog_);
    set_position(7, "forward");
    watchdog_.pause_watchdog();  // there is no training loop that gives signs of life
  }

  // Queues work that takes a part of the timeout. Returns the wait for it.
  int64_t queue_work(double part_of_timeout) {
    const auto begin = watch_->take_event(), end = watch_->take_event();
    begin->record(stream_);
    const int64_t name = watchdog_.begin({"", "the captured step"});
    const auto sleep = [](void* seconds) { sleep_for(*std::unique_ptr<double>(static_cast<double*>(seconds))); };
    C10_CUDA_CHECK(cudaLaunchHostFunc(stream_, sleep, new double(part_of_timeout * kTimeoutSeconds)));
    end->record(stream_);
    watch_->end_at(name, begin, end);
    return name;
  }

  // Expects that the run ends with exit code 7 and this message before `work` has returned.
  static void expect_end(const char* message, const std::function<void()>& work) {
    EXPECT_EXIT(
        {
          work();
          _exit(0);
        },
        testing::ExitedWithCode(7), message);
  }

  Watchdog watchdog_{kTimeoutSeconds};
  std::optional<c10::cuda::CUDAStreamGuard> guard_;
  cudaStream_t stream_ = nullptr;
  std::optional<GpuWatch> watch_;
};

// All is queued at once. The last work ends after 1.8 times the timeout, though each takes less than the timeout.
TEST_F(GpuWatchTest, TheTimeoutOfWorkCountsFromTheEndOfTheWorkBefore) {
  for (int i = 0; i < 3; ++i) queue_work(0.6);
  C10_CUDA_CHECK(cudaStreamSynchronize(stream_));
  sleep_for(0.2);
  EXPECT_EQ(watchdog_.waits_for(), Watchdog::Wait());
}

TEST_F(GpuWatchTest, WorkThatTheGpuHasBegunDoesNotCountAsQueued) {
  queue_work(0.3);
  queue_work(0.3);
  sleep_for(0.15 * kTimeoutSeconds);
  EXPECT_FALSE(watchdog_.state().queued);
  C10_CUDA_CHECK(cudaStreamSynchronize(stream_));
}

TEST_F(GpuWatchTest, ReportsWorkThatDoesNotEnd) {
  expect_end(
      "rank 0, step 7, forward: the captured step did not end within 2.*: no other rank could be asked: what this rank "
      "has begun hangs",
      [&] {
        queue_work(0.6);
        queue_work(10);
        sleep_for(3 * kTimeoutSeconds);
      });
}

TEST_F(GpuWatchTest, ReportsWorkThatCannotBegin) {
  expect_end("on the GPU of rank 0 work that was queued before does not end", [&] {
    C10_CUDA_CHECK(trainer::launch_endless_kernel(stream_));
    queue_work(0.1);
    sleep_for(2 * kTimeoutSeconds);
  });
}

TEST_F(GpuWatchTest, AGpuThatHangsDoesNotHoldUpTheEndOfAFailedRun) {
  EXPECT_EXIT(
      {
        C10_CUDA_CHECK(trainer::launch_endless_kernel(stream_));
        watch_->end_run_if_gpu_failed();  // it hangs, and has not failed
        watchdog_.end_soon(3);
        cudaDeviceSynchronize();  // as a destructor may do
        _exit(0);
      },
      testing::ExitedWithCode(3), "");
}

// Only this thread looks: the main thread calls nothing of CUDA.
TEST_F(GpuWatchTest, ReportsAnErrorOfTheGpuByItself) {
  expect_end(
      "step 7, forward: the GPU reports an error: an illegal memory access was encountered \\(seen while the captured "
      "step was under way\\)",
      [&] {
        queue_work(0.1);  // the error comes after it, so the calls below do not see it
        C10_CUDA_CHECK(trainer::launch_invalid_write(stream_));
        queue_work(0.1);
        sleep_for(kTimeoutSeconds / 2);
      });
}

TEST_F(GpuWatchTest, ReportsAnErrorOfTheGpuThatNoWaitSees) {
  expect_end("step 7, forward: the GPU reports an error: an illegal memory access was encountered\n", [&] {
    C10_CUDA_CHECK(trainer::launch_invalid_write(stream_));
    cudaStreamSynchronize(stream_);
    watch_->end_run_if_gpu_failed();
  });
}

// A destructor that records an event throws after an error of the GPU.
TEST_F(GpuWatchTest, ReportsAnErrorOfTheGpuInPlaceOfATermination) {
  struct Recorder {
    explicit Recorder(cudaStream_t its_stream) : stream(its_stream) {}
    ~Recorder() { event.record(stream); }
    cudaStream_t stream;
    GpuEvent event;
  };
  expect_end("the GPU reports an error: an illegal memory access was encountered", [&] {
    install_crash_handlers();
    const Recorder recorder(stream_);
    C10_CUDA_CHECK(trainer::launch_invalid_write(stream_));
    cudaStreamSynchronize(stream_);
  });
}

TEST_F(GpuWatchTest, AWorkingGpuIsNoError) {
  watch_->end_run_if_gpu_failed();
  queue_work(0.1);
  watch_->end_run_if_gpu_failed();
  C10_CUDA_CHECK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed));
  watch_->end_run_if_gpu_failed();
  cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusActive;
  C10_CUDA_CHECK(cudaStreamIsCapturing(stream_, &capturing));
  EXPECT_EQ(capturing, cudaStreamCaptureStatusNone);
}

}  // namespace
}  // namespace strata::sharding
