// SPDX-License-Identifier: MIT
// Checks the rules of the watchdog with peers that the test plays.
#include "sharding/process/watchdog.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace strata::sharding {
namespace {

void sleep_for(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

// The end of a run frees what answers questions, also while the watchdog still asks about a wait that has just ended.
TEST(Watchdog, IsDisconnectedOnlyAfterAQuestionHasEnded) {
  std::atomic<bool> asked{false}, answered{false};
  Watchdog watchdog(/*timeout_seconds=*/60);
  watchdog.connect({[&](double) {
                      asked = true;
                      sleep_for(0.3);
                      answered = true;
                      return std::vector<Watchdog::PeerState>();
                    },
                    [](int) {}});
  const int64_t wait = watchdog.begin({"", "the end of the run", /*meeting=*/true});
  while (!asked) sleep_for(0.01);
  watchdog.end(wait);
  watchdog.connect({});
  EXPECT_TRUE(answered);
}

}  // namespace
}  // namespace strata::sharding
