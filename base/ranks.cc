// SPDX-License-Identifier: MIT
#include "base/ranks.h"

#include <algorithm>
#include <cstdint>
#include <future>
#include <new>
#include <optional>
#include <system_error>
#include <utility>

#include "base/errors.h"

namespace strata {
namespace {

constexpr std::chrono::milliseconds kLook(100);

std::string failure(ExitCode code, const std::string& reason) {
  return std::string{'-', static_cast<char>(code)} + reason;
}

// True for the texts of LibTorch's allocators for GPUs and for CPUs. Their types are not known in this room.
bool says_memory_was_refused(const std::string& text) {
  return text.find("CUDA out of memory") != std::string::npos ||
         text.find("you tried to allocate") != std::string::npos;
}

// Returns "+<result>", or "-", one byte with the exit code, and the reason.
std::string outcome_of(const std::function<std::string()>& work) {
  try {
    return '+' + work();
  } catch (const Error& error) {
    return failure(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return failure(ExitCode::out_of_memory, "the host has no memory left");
  } catch (const std::system_error& error) {  // those of std::filesystem too
    return failure(ExitCode::storage, error.what());
  } catch (const std::exception& error) {
    const std::string text = error.what();
    if (!says_memory_was_refused(text)) return failure(ExitCode::internal, text);
    return failure(ExitCode::out_of_memory, text.substr(0, text.find('\n')));  // a stack follows
  }
}

std::string wait_line(const std::string& purpose, const std::vector<std::string>& outcomes, int64_t seconds) {
  const auto first = std::find(outcomes.begin(), outcomes.end(), "");
  const auto more_ranks = std::count(first + 1, outcomes.end(), "");
  return purpose + ": rank " + std::to_string(first - outcomes.begin()) +
         (more_ranks > 0 ? " and " + std::to_string(more_ranks) + " more have" : " has") + " not finished after " +
         std::to_string(seconds) + " s; the storage is slow or does not answer";
}

// Returns the results of all ranks, or throws the failures.
std::vector<std::string> results_of(std::vector<std::string> outcomes) {
  std::optional<ExitCode> code;
  std::string problems;
  for (std::string& outcome : outcomes) {
    if (outcome.starts_with('-')) {
      if (!code) code = static_cast<ExitCode>(static_cast<unsigned char>(outcome[1]));
      problems += (problems.empty() ? "" : "; ") + outcome.substr(2);
    }
    outcome.erase(0, 1);
  }
  if (code) throw Error(*code, problems);
  return outcomes;
}

}  // namespace

std::vector<std::string> gather_results(const Ranks& ranks, const std::function<std::string()>& work) {
  return results_of(ranks.gather(outcome_of(work)));
}

std::vector<std::string> gather_slow_results(const Ranks& ranks, const std::string& purpose,
                                             const std::function<std::string()>& work, const WaitReports& reports) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  std::string own_outcome;  // empty while the thread works
  std::future<std::string> task;
  try {
    task = std::async(std::launch::async, [&] { return outcome_of(work); });
  } catch (const std::exception& error) {  // the other ranks wait for this one in any case
    own_outcome = failure(ExitCode::internal, purpose + ": no thread could be started: " + error.what());
  }
  Clock::time_point next_report = begin + reports.every;
  while (true) {
    if (own_outcome.empty() && task.wait_for(kLook) == std::future_status::ready) own_outcome = task.get();
    std::vector<std::string> outcomes = ranks.gather(own_outcome);
    if (std::find(outcomes.begin(), outcomes.end(), "") == outcomes.end()) return results_of(std::move(outcomes));
    const Clock::time_point now = Clock::now();
    if (ranks.rank != 0 || now < next_report) continue;
    next_report = now + reports.every;
    reports.print(wait_line(purpose, outcomes, std::chrono::duration_cast<std::chrono::seconds>(now - begin).count()));
  }
}

}  // namespace strata
