// SPDX-License-Identifier: MIT
#include "tests/trainer/checkpoint/virtual_ranks.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>

namespace strata::trainer {
namespace {

class Room {
 public:
  explicit Room(int size) : texts_(size) {}

  std::vector<std::string> gather(int rank, const std::string& text) {
    std::unique_lock lock(mutex_);
    const int64_t round = round_;
    texts_[rank] = text;
    if (++arrived_ == texts_.size()) {
      gathered_ = texts_;
      arrived_ = 0;
      ++round_;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return round_ != round || failure_; });
    if (round_ == round) throw std::runtime_error("another rank has failed");
    return gathered_;
  }

  void fail(std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = failure;
    changed_.notify_all();
  }

  std::exception_ptr failure() const { return failure_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> texts_, gathered_;
  size_t arrived_ = 0;
  int64_t round_ = 0;
  std::exception_ptr failure_;
};

}  // namespace

void run_ranks(int size, const std::function<void(const Ranks&)>& body) {
  Room room(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body({rank, size, [&, rank](const std::string& text) { return room.gather(rank, text); }});
      } catch (...) {
        room.fail(std::current_exception());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (room.failure()) std::rethrow_exception(room.failure());
}

}  // namespace strata::trainer
