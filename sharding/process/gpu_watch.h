// SPDX-License-Identifier: MIT
// Tells the watchdog when work that was queued on the GPU has ended, which nobody on the host waits for.
#pragma once

#include <c10/core/Device.h>
#include <cuda_runtime_api.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "sharding/process/watchdog.h"

namespace strata::sharding {

// An event without timing. Once somebody waits for it by cudaStreamWaitEvent it may be used again: the wait keeps what
// it saw.
class GpuEvent {
 public:
  GpuEvent();
  ~GpuEvent();
  GpuEvent(const GpuEvent&) = delete;
  GpuEvent& operator=(const GpuEvent&) = delete;
  void record(cudaStream_t stream);
  void hold_back(cudaStream_t stream) const;
  void wait_on_host() const;  // sleeps: a core is not burnt
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// One per process, on the device that is current when it is made. A thread looks at the events every few milliseconds;
// it also sees errors of the GPU and of the transport, which would otherwise hang all other ranks.
class GpuWatch {
 public:
  explicit GpuWatch(Watchdog& watchdog);
  ~GpuWatch();
  GpuWatch(const GpuWatch&) = delete;
  GpuWatch& operator=(const GpuWatch&) = delete;

  // Events are made once and used again.
  std::shared_ptr<GpuEvent> take_event();

  // `name` has begun, as the watchdog's begin() said; it ends when `event`, which has been recorded, has happened.
  void end_at(int64_t name, std::shared_ptr<GpuEvent> event);

  // Asked every few milliseconds until it is removed: the sentence it returns, if any, ends the run.
  using Check = std::function<std::string()>;
  int64_t add_check(Check check);
  void remove_check(int64_t id);

  Watchdog& watchdog() { return watchdog_; }

 private:
  struct Queued {
    int64_t name;
    std::shared_ptr<GpuEvent> event;
  };
  void look();
  void look_once();

  Watchdog& watchdog_;
  int device_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Queued> queued_;  // in the order in which they end
  std::vector<std::pair<int64_t, Check>> checks_;
  int64_t next_check_ = 0;
  std::shared_ptr<std::vector<std::unique_ptr<GpuEvent>>> free_;
  std::shared_ptr<std::mutex> free_mutex_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace strata::sharding
