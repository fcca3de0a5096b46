// SPDX-License-Identifier: MIT
#include "sharding/process/gpu_watch.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <exception>

namespace strata::sharding {
namespace {

constexpr auto kLook = std::chrono::milliseconds(20);  // each look costs one query of the oldest event

// A rank that dies closes its connections. mpirun then ends the other ranks within this time, with the exit code of the
// rank that died. A rank that ended at once with an error of its own would hide the cause.
constexpr auto kBeforeLostConnectionsCount = std::chrono::seconds(3);

// An error of the GPU stays, and destructors of LibTorch that record events throw it. std::terminate would end this
// rank by SIGABRT before anybody has said why.
std::atomic<GpuWatch*> watch_of_process{nullptr};
std::terminate_handler terminate_as_usual = nullptr;

void terminate_after_the_gpu() {
  if (GpuWatch* const watch = watch_of_process) watch->end_run_if_gpu_failed();
  terminate_as_usual();
}

}  // namespace

GpuWatch::GpuWatch(Watchdog& watchdog)
    : watchdog_(watchdog),
      free_(std::make_shared<std::vector<std::unique_ptr<GpuEvent>>>()),
      free_mutex_(std::make_shared<std::mutex>()) {
  C10_CUDA_CHECK(cudaGetDevice(&device_));
  thread_ = std::thread([this] { watch_until_end(); });
  if (terminate_as_usual == nullptr) terminate_as_usual = std::set_terminate(terminate_after_the_gpu);
  watch_of_process = this;
}

GpuWatch::~GpuWatch() {
  watch_of_process = nullptr;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
  for (const Queued& one : queued_) watchdog_.end(one.wait_id);
}

std::shared_ptr<GpuEvent> GpuWatch::take_event() {
  std::unique_ptr<GpuEvent> event;
  {
    const std::lock_guard lock(*free_mutex_);
    if (!free_->empty()) {
      event = std::move(free_->back());
      free_->pop_back();
    }
  }
  if (!event) event = std::make_unique<GpuEvent>();
  // The last owner returns the event to the list, even after the GpuWatch was destroyed.
  return {event.release(), [free = free_, mutex = free_mutex_](GpuEvent* used) {
            const std::lock_guard lock(*mutex);
            free->emplace_back(used);
          }};
}

void GpuWatch::end_at(int64_t wait_id, std::shared_ptr<GpuEvent> begin, std::shared_ptr<GpuEvent> end) {
  watchdog_.set_queued(wait_id, true);
  const std::lock_guard lock(mutex_);
  queued_.push_back({wait_id, std::move(begin), std::move(end)});
}

void GpuWatch::end_run_if_gpu_failed() {
  cudaSetDevice(device_);  // a thread that terminates may have no device yet
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device_));
  cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(stream, &capturing) == cudaSuccess && capturing != cudaStreamCaptureStatusNone) {
    cudaGraph_t unfinished = nullptr;  // the stream cannot be asked while it is captured
    cudaStreamEndCapture(stream, &unfinished);
  }
  const cudaError_t state = cudaStreamQuery(stream);
  if (state != cudaSuccess && state != cudaErrorNotReady) fail(state);
}

void GpuWatch::fail(cudaError_t error) {
  const std::string wait = watchdog_.waits_for().text();
  watchdog_.fail(std::string("the GPU reports an error: ") + cudaGetErrorString(error) +
                     (wait.empty() ? "" : " (seen while " + wait + " was under way)"),
                 "run it again with CUDA_LAUNCH_BLOCKING=1 to find the kernel");
}

int64_t GpuWatch::add_check(Check check) {
  const std::lock_guard lock(mutex_);
  checks_.emplace_back(next_check_, std::move(check));
  return next_check_++;
}

void GpuWatch::remove_check(int64_t id) {
  const std::lock_guard lock(mutex_);
  std::erase_if(checks_, [id](const auto& one) { return one.first == id; });
}

void GpuWatch::watch_until_end() {
  pthread_setname_np(pthread_self(), "gpu watch");
  cudaSetDevice(device_);
  std::unique_lock lock(mutex_);
  while (!stop_) {
    changed_.wait_for(lock, kLook);
    check_waits();
  }
}

void GpuWatch::check_waits() {
  const size_t before = queued_.size();
  while (!queued_.empty()) {
    const cudaError_t state = cudaEventQuery(queued_.front().end->get());
    if (state == cudaErrorNotReady) break;
    if (state != cudaSuccess) fail(state);
    watchdog_.end(queued_.front().wait_id);
    queued_.pop_front();
  }
  if (queued_.size() < before) {
    std::vector<int64_t> later;
    for (const Queued& one : queued_) later.push_back(one.wait_id);
    watchdog_.restart(later);
  }
  // Only the oldest wait is asked, because watchdogs report that wait.
  if (!queued_.empty() && queued_.front().begin && cudaEventQuery(queued_.front().begin->get()) == cudaSuccess) {
    watchdog_.set_queued(queued_.front().wait_id, false);
    queued_.front().begin.reset();
  }
  for (const auto& [id, check] : checks_) {
    const std::string wrong = check();
    if (wrong.empty()) continue;
    std::this_thread::sleep_for(kBeforeLostConnectionsCount);
    watchdog_.fail(wrong, "NCCL_DEBUG=WARN says more");
  }
}

}  // namespace strata::sharding
