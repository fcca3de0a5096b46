// SPDX-License-Identifier: MIT
// A worker thread runs its work in order and completes it before it ends. Exceptions arrive with the future of their
// work.
#include "base/worker_thread.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace strata {
namespace {

TEST(WorkerThread, DoesItsWorkInOrderOnOneThread) {
  std::vector<int> done;
  std::set<std::thread::id> threads;
  {
    WorkerThread worker("worker test");
    for (int i = 0; i < 20; ++i) {
      worker.start([&, i] {
        if (i == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
        done.push_back(i);
        threads.insert(std::this_thread::get_id());
      });
    }
  }
  ASSERT_EQ(done.size(), 20u);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(done[static_cast<size_t>(i)], i);
  EXPECT_EQ(threads.size(), 1u);
  EXPECT_FALSE(threads.contains(std::this_thread::get_id()));
}

TEST(WorkerThread, GivesResultsAndErrors) {
  WorkerThread worker("worker test");
  std::future<std::string> bad = worker.start([]() -> std::string { throw std::runtime_error("no such sample"); });
  std::future<std::string> good = worker.start([] { return std::string("batch"); });
  EXPECT_EQ(good.get(), "batch");
  EXPECT_THROW(bad.get(), std::runtime_error);
}

}  // namespace
}  // namespace strata
