// SPDX-License-Identifier: MIT
// A thread that runs one task after another.
#pragma once

#include <pthread.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "base/crash_stack.h"

namespace strata {

// It is kept between tasks, because starting and ending a thread for each task also starts and ends a team of OpenMP
// threads: 6 ms on a host with 16 cores.
class WorkerThread {
 public:
  // `name` is the name of the thread in the operating system: at most 15 characters.
  explicit WorkerThread(const char* name) : thread_([this, name] { serve(name); }) {}
  // Waits until all tasks that were started have finished.
  ~WorkerThread() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  WorkerThread(const WorkerThread&) = delete;
  WorkerThread& operator=(const WorkerThread&) = delete;

  // Returns a future that holds the result of `work` or the exception that it has thrown.
  template <class Work>
  auto start(Work work) -> std::future<decltype(work())> {
    auto task = std::make_shared<std::packaged_task<decltype(work())()>>(std::move(work));
    {
      const std::lock_guard lock(mutex_);
      waiting_.emplace_back([task] { (*task)(); });
    }
    changed_.notify_one();
    return task->get_future();
  }

 private:
  void serve(const char* name) {
    const CrashStack crash_stack;
    pthread_setname_np(pthread_self(), name);
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stop_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      const std::function<void()> work = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      work();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  bool stop_ = false;
  std::thread thread_;  // declared last, because it uses the members above
};

}  // namespace strata
