// SPDX-License-Identifier: MIT
#include "sharding/process/failure.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/worker_thread.h"
#include "tests/refused_call.h"

namespace strata::sharding {
namespace {

namespace fs = std::filesystem;

class FailureTest : public testing::Test {
 protected:
  FailureTest() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  nlohmann::json error() const {
    std::ifstream file(folder_ / "error.json");
    return nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  }
  const fs::path folder_ = fs::path(std::getenv("TEST_TMPDIR")) / "run";
};

TEST_F(FailureTest, KeepsEveryField) {
  const std::string odd = "quote \" backslash \\ newline \n tab \t escape \x1b not UTF-8 \xff <script>";
  ASSERT_TRUE(report_failure(folder_, {ExitCode::data, 3, 1234567890123, "forward", odd, "look at it"}));
  const auto json = error();
  EXPECT_EQ(json["code"], 3);
  EXPECT_EQ(json["rank"], 3);
  EXPECT_EQ(json["step"], 1234567890123);
  EXPECT_EQ(json["phase"], "forward");
  EXPECT_EQ(json["message"], "quote \" backslash \\ newline \n tab \t escape \x1b not UTF-8 \xef\xbf\xbd <script>");
  EXPECT_EQ(json["hint"], "look at it");
}

TEST_F(FailureTest, TheFirstOfManyWinsAndNothingElseIsLeft) {
  std::vector<std::thread> ranks;
  std::atomic<int> winners{0}, winner{-1};
  for (int rank = 0; rank < 8; ++rank) {
    ranks.emplace_back([&, rank] {
      if (!report_failure(folder_, {ExitCode::data, rank, 0, "", "", ""})) return;
      ++winners;
      winner = rank;
    });
  }
  for (auto& rank : ranks) rank.join();
  EXPECT_EQ(winners, 1);
  EXPECT_EQ(error()["rank"], winner.load());
  EXPECT_FALSE(report_failure(folder_, {ExitCode::data, 9, 0, "", "", ""}));
  EXPECT_EQ(error()["rank"], winner.load());
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

TEST_F(FailureTest, AFileSystemWithoutLinksKeepsTheFirstReportToo) {
  EXPECT_EXIT(
      {
        for (const int call : {SYS_link, SYS_linkat}) {
          if (!refuse_system_call(call, EPERM)) _exit(90);
        }
        const bool first = report_failure(folder_, {ExitCode::data, 1, 0, "", "", ""});
        _exit(first && !report_failure(folder_, {ExitCode::data, 2, 0, "", "", ""}) ? 42 : 1);
      },
      testing::ExitedWithCode(42), "");
  EXPECT_EQ(error()["rank"], 1);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

TEST_F(FailureTest, NothingIsWrittenThroughLinks) {
  const fs::path target = folder_ / "target";
  std::ofstream(target) << "mine";
  const std::string temporary = "error.json.4." + std::to_string(getpid()) + ".tmp";
  fs::create_symlink(target, folder_ / temporary);
  EXPECT_TRUE(report_failure(folder_, {ExitCode::data, 4, 0, "", "", ""}));
  std::string text;
  std::ifstream(target) >> text;
  EXPECT_EQ(text, "mine");
  EXPECT_EQ(error()["rank"], 4);
}

TEST_F(FailureTest, AStaleReportIsRemoved) {
  report_failure(folder_, {});
  remove_stale_report(folder_);
  EXPECT_TRUE(fs::is_empty(folder_));
  remove_stale_report(folder_);  // a missing report is no error
  EXPECT_TRUE(report_failure(folder_, {}));
}

TEST_F(FailureTest, AFolderThatIsNotThereIsSaid) {
  testing::internal::CaptureStderr();
  EXPECT_FALSE(report_failure(folder_ / "absent", {}));
  EXPECT_NE(testing::internal::GetCapturedStderr().find("absent/error.json: No such file or directory"),
            std::string::npos);
}

TEST_F(FailureTest, ReportsWhereTheProcessIs) {
  set_report_folder(folder_);
  set_report_rank(5);
  set_position(17, "backward");
  EXPECT_TRUE(report_failure(failure_here(ExitCode::numerics, "not finite", "lower the learning rate")));
  EXPECT_EQ(error(),
            nlohmann::json::parse(R"({"code": 5, "rank": 5, "step": 17, "phase": "backward", "message": "not finite",
                                               "hint": "lower the learning rate"})"));
}

TEST_F(FailureTest, EveryRankSaysWhatNoReportHoldsAndFollowersSayNothing) {
  const auto said_by = [](int rank) {
    set_report_rank(rank);
    testing::internal::CaptureStderr();
    print_failure(failure_here(ExitCode::data, "plan.yaml: cannot be opened"));
    return testing::internal::GetCapturedStderr();
  };
  set_position(0, "start");
  set_report_folder(folder_ / "absent");
  for (const int rank : {0, 3}) {
    const std::string expected =
        "strata: rank " + std::to_string(rank) + ", step 0, start: plan.yaml: cannot be opened\n";
    EXPECT_TRUE(said_by(rank).ends_with(expected)) << rank;
  }
  set_report_folder(folder_);
  EXPECT_EQ(said_by(3), "strata: rank 3, step 0, start: plan.yaml: cannot be opened\n");
  EXPECT_EQ(said_by(0), "");
  EXPECT_EQ(error()["rank"], 3);
}

TEST_F(FailureTest, BytesOfFilesDoNotSteerTheTerminal) {
  set_report_folder(folder_);
  testing::internal::CaptureStderr();
  print_failure(failure_here(ExitCode::data, "a.npz: dtype <i8\x1b]0;owned\x07\nsee the manual"));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(said.ends_with(": a.npz: dtype <i8?]0;owned?\nsee the manual\n")) << said;
}

volatile bool never = false;

[[gnu::noinline]] int overflow_stack(int depth) {
  volatile char frame[4096];
  frame[0] = 1;
  return never ? depth : overflow_stack(depth ^ 1) + frame[0];
}

TEST_F(FailureTest, CrashesLeaveReportAndBacktrace) {
  struct Crash {
    int signal;
    std::function<void()> cause;
  };
  const std::vector<Crash> crashes = {
      {SIGABRT, [] { std::abort(); }},
      {SIGABRT, [] { std::thread([] { throw std::runtime_error("uncaught"); }).join(); }},
      {SIGSEGV, [] { raise(SIGSEGV); }},
      {SIGSEGV, [] { overflow_stack(0); }},
      {SIGSEGV, [] { WorkerThread("worker").start([] { overflow_stack(0); }).wait(); }},
      {SIGFPE, [] { raise(SIGFPE); }},
      {SIGBUS, [] { raise(SIGBUS); }},
  };
  for (const auto& [signal, cause] : crashes) {
    EXPECT_EXIT(
        {
          set_report_folder(folder_);
          set_report_rank(2);
          set_position(-7, "checkpoint");
          install_crash_handlers();
          cause();
        },
        testing::KilledBySignal(signal), "rank 2: .*SIG.* in step -7, checkpoint\n(.|\n)*failure_test");
    EXPECT_EQ(error()["code"], 128 + signal);
    EXPECT_EQ(error()["rank"], 2);
    EXPECT_EQ(error()["step"], -7);
    EXPECT_EQ(error()["phase"], "checkpoint");
    remove_stale_report(folder_);
  }
}

TEST_F(FailureTest, AFullFileIsAnErrorOfTheWriteAndNoSignal) {
  EXPECT_EXIT(
      {
        install_crash_handlers();
        rlimit limit;
        limit.rlim_cur = limit.rlim_max = 10;
        setrlimit(RLIMIT_FSIZE, &limit);
        const int file = open((folder_ / "data").c_str(), O_CREAT | O_WRONLY, 0644);
        const char data[20] = {};
        if (write(file, data, 20) == 10 && write(file, data, 10) == -1 && errno == EFBIG) _exit(42);
      },
      testing::ExitedWithCode(42), "");
}

}  // namespace
}  // namespace strata::sharding
