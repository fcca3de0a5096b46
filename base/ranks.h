// SPDX-License-Identifier: MIT
// Exchanges short texts between the ranks of a run on the host, and throws an error of one rank on all of them.
#pragma once

#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace strata {

// The ranks of a run, and how they exchange short texts on the host. The default is a single rank.
struct Ranks {
  int rank = 0, size = 1;
  // Returns the texts of all ranks, in rank order, on every rank. This is a collective.
  std::function<std::vector<std::string>(const std::string&)> gather = [](const std::string& text) {
    return std::vector<std::string>{text};
  };
};

// Runs `work` on every rank and gathers the results. If it throws on some rank, every rank throws an Error with all
// messages and the exit code of the first failed rank, so that no rank waits for another. The exit code of a
// std::system_error is storage, of refused memory out_of_memory, and of other exceptions internal. This is a
// collective.
std::vector<std::string> gather_results(const Ranks& ranks, const std::function<std::string()>& work);

// Rank 0 prints a line now and then while ranks still work. Nothing can end a read of storage that hangs, so somebody
// must see it.
struct WaitReports {
  std::chrono::milliseconds every = std::chrono::minutes(1);
  std::function<void(const std::string& line)> print = [](const std::string& line) {
    std::fprintf(stderr, "%s\n", line.c_str());
  };
};

// The same for slow work, such as reading files, during which other ranks cannot wait in one collective. `work` runs in
// a thread and may not communicate. Until it has finished everywhere, the ranks gather every 100 ms. `purpose` says in
// a report what the ranks do.
std::vector<std::string> gather_slow_results(const Ranks& ranks, const std::string& purpose,
                                             const std::function<std::string()>& work, const WaitReports& reports = {});

}  // namespace strata
