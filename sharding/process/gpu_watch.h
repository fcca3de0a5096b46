// SPDX-License-Identifier: MIT
// Reports to the watchdog when work on the GPU has finished, because no host thread waits for it.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "sharding/process/gpu_event.h"
#include "sharding/process/watchdog.h"

namespace strata::sharding {

// Create one per process; it uses the current device. A thread polls the events every 20 ms. It also polls for errors
// of the GPU and of the transport, which would otherwise make all other ranks hang. After an error of the GPU the run
// ends without destructors, because destructors of LibTorch throw then.
class GpuWatch {
 public:
  explicit GpuWatch(Watchdog& watchdog);
  ~GpuWatch();
  GpuWatch(const GpuWatch&) = delete;
  GpuWatch& operator=(const GpuWatch&) = delete;

  // Returns an event; events are reused.
  std::shared_ptr<GpuEvent> take_event();

  // Ends the wait `wait_id`, which Watchdog::begin() returned, when `end` has completed. Until `begin` has completed,
  // the wait counts as queued. Both events must have been recorded. The timeout of a wait starts again whenever an
  // earlier one ends, because the host queues up to a step ahead and the GPU does one after another.
  void end_at(int64_t wait_id, std::shared_ptr<GpuEvent> begin, std::shared_ptr<GpuEvent> end);

  // Ends the run if the GPU has failed, as the polling thread does. Call it after an exception on the thread that
  // computes, whatever the exception says. A capture that the current stream is in ends.
  void end_run_if_gpu_failed();

  // A check is called every 20 ms until it is removed. If it returns a text, the run ends with this message 3 s later.
  using Check = std::function<std::string()>;
  int64_t add_check(Check check);
  void remove_check(int64_t id);

  Watchdog& watchdog() { return watchdog_; }

 private:
  struct Queued {
    int64_t wait_id;
    std::shared_ptr<GpuEvent> begin, end;  // begin: null after it was seen
  };
  void watch_until_end();
  void check_waits();
  [[noreturn]] void fail(cudaError_t error);

  Watchdog& watchdog_;
  int device_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Queued> queued_;  // in the order in which they complete
  std::vector<std::pair<int64_t, Check>> checks_;
  int64_t next_check_ = 0;
  std::shared_ptr<std::vector<std::unique_ptr<GpuEvent>>> free_;
  std::shared_ptr<std::mutex> free_mutex_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace strata::sharding
