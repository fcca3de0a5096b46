// SPDX-License-Identifier: MIT
// Checks that an error of one rank reaches all ranks, and that ranks keep meeting while some of them work.
#include "base/ranks.h"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/errors.h"
#include "tests/base/no_threads.h"
#include "tests/trainer/checkpoint/virtual_ranks.h"

namespace strata {
namespace {

using trainer::run_ranks;

TEST(Ranks, WhatOneRankThrowsAllRanksThrow) {
  run_ranks(3, [](const Ranks& ranks) {
    const auto code_of = [&](const std::function<std::string()>& work) {
      try {
        gather_results(ranks, work);
      } catch (const Error& error) {
        EXPECT_EQ(std::string(error.what()), "rank 1; rank 2");
        return error.code();
      }
      return ExitCode::done;
    };
    const std::string name = "rank " + std::to_string(ranks.rank);
    const auto fail_with = [&](ExitCode code) -> std::string { throw Error(code, name); };
    EXPECT_EQ(code_of([&] { return ranks.rank == 0 ? "" : fail_with(ExitCode::configuration); }),
              ExitCode::configuration);
    EXPECT_EQ(code_of([&]() -> std::string {
                if (ranks.rank > 0) throw std::runtime_error(name);
                return "";
              }),
              ExitCode::internal);
    EXPECT_EQ(gather_results(ranks, [&] { return name; }), (std::vector<std::string>{"rank 0", "rank 1", "rank 2"}));
  });
}

TEST(Ranks, AnExceptionThatIsNoErrorHasTheCodeOfItsKind) {
  const auto code_of = [](const std::function<std::string()>& work) {
    try {
      gather_results({}, work);
    } catch (const Error& error) {
      return error.code();
    }
    return ExitCode::done;
  };
  EXPECT_EQ(code_of([] { return std::to_string(std::filesystem::file_size("/no/such/file")); }), ExitCode::storage);
  EXPECT_EQ(code_of([]() -> std::string { throw std::bad_alloc(); }), ExitCode::out_of_memory);
  const int64_t petabyte = int64_t{1} << 50;  // more than the address space has
  EXPECT_EQ(code_of([&] { return std::to_string(at::zeros({petabyte}).numel()); }), ExitCode::out_of_memory);
  EXPECT_EQ(code_of([] { return std::string("abc").substr(4); }), ExitCode::internal);
}

// Rank 0 works until the ranks have met four times and have said so, and for at most a minute.
TEST(Ranks, TheyMeetAndReportWhileOneOfThemWorks) {
  std::atomic<int> meetings = 0, reports = 0;
  run_ranks(2, [&](Ranks ranks) {
    const auto gather = ranks.gather;
    ranks.gather = [&, gather](const std::string& text) {
      const auto texts = gather(text);
      if (ranks.rank == 1) ++meetings;
      return texts;
    };
    const auto work = [&](bool fails) -> std::string {
      const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
      const int enough = meetings + 4;
      while (ranks.rank == 0 && (meetings < enough || reports == 0) && std::chrono::steady_clock::now() < end) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      EXPECT_TRUE(ranks.rank != 0 || meetings >= enough) << "the ranks have not met four times within a minute";
      if (ranks.rank == 0 && fails) throw Error(ExitCode::data, "failed");
      return "rank " + std::to_string(ranks.rank);
    };
    const auto look_at = [&](const std::string& line) {  // rank 1 may not have finished either
      ++reports;
      EXPECT_TRUE(line.starts_with("reading: rank 0 ")) << line;
    };
    const WaitReports print_all = {.every = std::chrono::milliseconds(0), .print = look_at};
    EXPECT_EQ(gather_slow_results(
                  ranks, "reading", [&] { return work(false); }, print_all),
              (std::vector<std::string>{"rank 0", "rank 1"}));
    try {
      gather_slow_results(
          ranks, "reading", [&] { return work(true); }, print_all);
      ADD_FAILURE() << "the failure of rank 0 is not known";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::data);
    }
  });
  EXPECT_GT(reports, 0);
}

TEST(RanksDeathTest, ARankThatCannotStartAThreadTellsTheOthers) {
  const auto run = [] {
    refuse_threads();
    Ranks rank;
    rank.gather = [](const std::string& text) {
      std::fprintf(stderr, "sent: %s\n", text.substr(2).c_str());
      return std::vector<std::string>{text};
    };
    try {
      gather_slow_results(rank, "reading", [] { return std::string(); });
    } catch (const Error& error) {
      std::_Exit(static_cast<int>(error.code()));
    }
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(70), "sent: reading: no thread could be started");
}

}  // namespace
}  // namespace strata
