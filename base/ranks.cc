// SPDX-License-Identifier: MIT
#include "base/ranks.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <new>
#include <optional>
#include <system_error>
#include <utility>

#include "base/errors.h"

namespace strata {
namespace {

constexpr std::chrono::milliseconds kLook(100);

// Returns "+<result>", or "-", one byte with the exit code, and the reason.
std::string outcome_of(const std::function<std::string()>& work) {
  const auto failure = [](ExitCode code, const char* reason) {
    return std::string{'-', static_cast<char>(code)} + reason;
  };
  try {
    return '+' + work();
  } catch (const Error& error) {
    return failure(error.code(), error.what());
  } catch (const std::bad_alloc& error) {
    return failure(ExitCode::out_of_memory, error.what());
  } catch (const std::system_error& error) {  // those of std::filesystem too
    return failure(ExitCode::storage, error.what());
  } catch (const std::exception& error) {
    return failure(ExitCode::internal, error.what());
  }
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

std::vector<std::string> gather_slow_results(const Ranks& ranks, const std::function<std::string()>& work) {
  std::future<std::string> task = std::async(std::launch::async, [&] { return outcome_of(work); });
  std::string mine;  // empty while the thread works
  std::vector<std::string> outcomes;
  do {
    if (mine.empty() && task.wait_for(kLook) == std::future_status::ready) mine = task.get();
    outcomes = ranks.gather(mine);
  } while (std::any_of(outcomes.begin(), outcomes.end(), [](const auto& outcome) { return outcome.empty(); }));
  return results_of(std::move(outcomes));
}

}  // namespace strata
