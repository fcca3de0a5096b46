// SPDX-License-Identifier: MIT
// Checks the rules of the watchdog with peers that the test plays.
#include "sharding/process/watchdog.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "sharding/process/failure.h"

namespace strata::sharding {
namespace {

void sleep_for(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

// Returns how this rank asks another one, which is in the same handshake all the time.
Watchdog::Peers one_peer_in(const std::string& handshake) {
  const Watchdog::PeerState state = {
      .rank = 1, .answered = true, .wait = {"", handshake, /*handshake=*/true}, .where = "step 1, forward", .begun = 5};
  return {[state](double) { return std::vector<Watchdog::PeerState>{state}; }, {}};
}

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
  const int64_t wait = watchdog.begin({"", "the end of the run", /*handshake=*/true});
  while (!asked) sleep_for(0.01);
  watchdog.end(wait);
  watchdog.connect({});
  EXPECT_TRUE(answered);
}

// The timeout counts from the end of the work before, not from when the host queued the work.
TEST(Watchdog, RestartsTheTimeoutOfAWait) {
  Watchdog watchdog(/*timeout_seconds=*/2);
  const int64_t wait = watchdog.begin({"", "the captured step"});
  sleep_for(1.2);
  watchdog.restart({wait, wait + 1});
  sleep_for(1.2);
  EXPECT_EQ(watchdog.waits_for().what, "the captured step");
  watchdog.end(wait);
  watchdog.restart({wait});
  EXPECT_EQ(watchdog.waits_for(), Watchdog::Wait());
}

// A wait is over if it ends, or if its timeout starts again, while other ranks answer the question who blocks it.
TEST(Watchdog, LetsAWaitEndWhileOtherRanksAnswer) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  using Change = std::function<void(Watchdog&, int64_t)>;
  const auto change_while_asked = [](const Change& change) {
    std::atomic<int> questions{0};
    std::atomic<int64_t> wait{-1};
    Watchdog watchdog(/*timeout_seconds=*/2);
    watchdog.connect({[&](double) {
                        sleep_for(0.1);
                        change(watchdog, wait);
                        ++questions;
                        return std::vector<Watchdog::PeerState>();
                      },
                      {}});
    watchdog.heartbeat();
    wait = watchdog.begin({"", "a slow file system"});  // no place, so that nobody is asked before the timeout
    while (questions == 0) sleep_for(0.01);
    sleep_for(0.4);  // a few checks: none ends the run, though the last heartbeat is older than the timeout
    if (questions != 1) _exit(1);
    watchdog.end(wait);
    watchdog.pause_watchdog();
    sleep_for(0.3);
    _exit(0);
  };
  EXPECT_EXIT(change_while_asked([](Watchdog& watchdog, int64_t wait) { watchdog.end(wait); }),
              testing::ExitedWithCode(0), "^$");
  EXPECT_EXIT(change_while_asked([](Watchdog& watchdog, int64_t wait) { watchdog.restart({wait}); }),
              testing::ExitedWithCode(0), "^$");
  EXPECT_EXIT(change_while_asked([](Watchdog&, int64_t) {}), testing::ExitedWithCode(7),
              "a slow file system did not end within");
}

// Many waits are late together. The watchdog passes over those that have ended when the answers come, one by one.
TEST(Watchdog, FindsTheWaitThatHangsBehindOthersThatEnd) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        std::vector<int64_t> waits;
        size_t ended = 0;
        Watchdog watchdog(/*timeout_seconds=*/1);
        for (const char* what : {"the first", "the second", "the third", "the fourth", "the fifth"})
          waits.push_back(watchdog.begin({"", what}));
        watchdog.connect({[&](double) {
                            if (ended < 3) watchdog.end(waits[ended++]);
                            return std::vector<Watchdog::PeerState>();
                          },
                          {}});
        sleep_for(10);
        _exit(0);
      },
      testing::ExitedWithCode(7), "the fourth did not end within [12]\\..* s: no other rank could be asked");
}

TEST(Watchdog, ShortensTextsWithoutMakingThemEqual) {
  Watchdog watchdog(/*timeout_seconds=*/60);
  const std::string name(2000, 'g'), longest(Watchdog::kLongestText, 'l');
  std::vector<Watchdog::Wait> kept;
  for (const Watchdog::Wait& wait :
       {Watchdog::Wait{name + "1", name}, {name + "2", name}, {name + "1", name + "3"}, {longest, longest}}) {
    const int64_t id = watchdog.begin(wait);
    kept.push_back(watchdog.waits_for());
    watchdog.end(id);
    EXPECT_LE(kept.back().place.size(), Watchdog::kLongestText);
    EXPECT_LE(kept.back().what.size(), Watchdog::kLongestText);
  }
  EXPECT_NE(kept[0].place, kept[1].place);
  EXPECT_EQ(kept[0].place, kept[2].place);
  EXPECT_EQ(kept[0].what, kept[1].what);
  EXPECT_NE(kept[0].what, kept[2].what);
  EXPECT_EQ(kept[0].place.find(std::string(300, 'g')), 0u);
  EXPECT_NE(kept[0].place.find("... (2001 bytes, hash "), std::string::npos) << kept[0].place;
  EXPECT_EQ(kept[3], (Watchdog::Wait{longest, longest}));
}

TEST(Watchdog, ReportsHandshakesThatWaitForEachOther) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        Watchdog watchdog(/*timeout_seconds=*/3);
        watchdog.connect(one_peer_in("ranks 0 and 1: the loss"));
        watchdog.begin({"", "all ranks: a barrier", /*handshake=*/true});
        sleep_for(10);
        _exit(0);
      },
      testing::ExitedWithCode(7),
      "ranks of different groups wait for each other: rank 0 is in all ranks: a barrier; rank 1 is in ranks 0 and 1: "
      "the "
      "loss");
}

// A lost packet of TCP delays the messages of one connection, while those of others go on.
TEST(Watchdog, WaitsForAConnectionThatStalls) {
  Watchdog watchdog(/*timeout_seconds=*/6);
  watchdog.connect(one_peer_in("ranks 0 and 1: the loss"));
  const int64_t wait = watchdog.begin({"", "all ranks: a barrier", /*handshake=*/true});
  sleep_for(1.7);  // longer than two checks
  watchdog.end(wait);
}

// All ranks have queued the same collective, and the GPU of one has not come to it.
TEST(Watchdog, NamesTheRankWhoseGpuIsBehind) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  // Without `abort` the process ends at once.
  const auto run_beside = [](bool here, bool there, const std::function<void(int)>& abort = {}) {
    Watchdog watchdog(/*timeout_seconds=*/0.5);
    const Watchdog::Wait wait = {"all ranks, collective 17", "all_gather of blocks.2"};
    watchdog.connect({[wait, there](double) {
                        return std::vector<Watchdog::PeerState>{
                            {.rank = 1, .answered = true, .wait = wait, .where = "step 6, forward", .queued = there}};
                      },
                      abort});
    watchdog.set_queued(watchdog.begin(wait), here);
    sleep_for(10);
    _exit(0);
  };
  EXPECT_EXIT(
      run_beside(false, true), testing::ExitedWithCode(7),
      "all_gather of blocks.2 did not end within .* s: on the GPU of rank 1 work that was queued before does not "
      "end\n  rank 1: waits for all ranks, collective 17, .*, step 6, forward, its GPU has not begun that");
  EXPECT_EXIT(run_beside(true, false), testing::ExitedWithCode(7), "on the GPU of rank 0 work that was queued before");
  EXPECT_EXIT(run_beside(true, true), testing::ExitedWithCode(7), "on the GPUs of ranks 0 and 1 work that was queued");
  const auto hangs = [](int) {};
  EXPECT_EXIT(run_beside(false, false, hangs), testing::ExitedWithCode(7),
              "all ranks have arrived: the transport hangs");
}

// Nobody reads the errors of this process, and the pipe that takes them is full.
TEST(Watchdog, EndsARunWhoseReportHangs) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        int pipe_ends[2];
        if (pipe(pipe_ends) != 0) _exit(1);
        fcntl(pipe_ends[1], F_SETFL, O_NONBLOCK);
        while (write(pipe_ends[1], "x", 1) == 1) {
        }
        fcntl(pipe_ends[1], F_SETFL, 0);
        dup2(pipe_ends[1], STDERR_FILENO);
        Watchdog watchdog(/*timeout_seconds=*/1);
        watchdog.fail("the transport is gone", "");
      },
      testing::ExitedWithCode(7), "^$");
}

TEST(Watchdog, EndsARunWhoseDestructorsHang) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        Watchdog watchdog(/*timeout_seconds=*/2);
        watchdog.begin({"", "what hangs"});
        sleep_for(1.5);
        watchdog.end_soon(3);  // after 1 s, so the wait times out before, and is not reported
        sleep_for(10);
        _exit(0);
      },
      testing::ExitedWithCode(3), "^$");
}

TEST(Watchdog, ReportsAFirstStepThatHangs) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        Watchdog watchdog(/*timeout_seconds=*/0.5);
        set_position(0, "start");
        sleep_for(1);  // a start may take longer than the timeout
        set_position(1, "forward");
        sleep_for(10);
        _exit(0);
      },
      testing::ExitedWithCode(7), "step 1, forward: the training loop of this rank gave no sign of life");
}

}  // namespace
}  // namespace strata::sharding
