// SPDX-License-Identifier: MIT
#include "tests/fuzz/harness/oracle.h"

#include <algorithm>
#include <ctime>
#include <exception>
#include <typeinfo>

#include "base/text/printable.h"

namespace strata::fuzz {
namespace {

// The file must be named before the place where the programs cut a line. A message of a hundred errors has 50 KiB.
constexpr size_t kWidestLine = 4 << 10, kLongestMessage = 64 << 10;

// Processor seconds for one input; enough for a sanitizer that makes everything ten times slower.
constexpr double kSecondsPerInput = 5;

// Returns what is wrong with a message, or an empty text.
std::string problem_of(std::string_view message) {
  if (message.size() > kLongestMessage) return "a message of " + std::to_string(message.size()) + " bytes";
  if (message.substr(0, kWidestLine).find(kTarget.file) == std::string_view::npos) {
    return "a message that does not name " + std::string(kTarget.file);
  }
  if (!kTarget.plain_messages) return "";
  for (std::string_view rest = message; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    if (end > kWidestLine) return "a line of " + std::to_string(end) + " bytes in a message";
    std::string line(rest.substr(0, end));
    std::replace(line.begin(), line.end(), '\t', ' ');  // programs print them so
    if (printable(line) != line) return "a message with control characters";
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return "";
}

std::string shown(std::string_view message) { return printable(std::string(message.substr(0, 300))); }

Verdict verdict_of(std::string_view bytes) {
  try {
    kTarget.parse(bytes);
    return {.accepted = true, .complaint = ""};
  } catch (const Broken& broken) {
    return {.accepted = true, .complaint = shown(broken.reason)};
  } catch (const Error& error) {
    std::string problem = problem_of(error.what());
    if (error.code() != kTarget.refusal && error.code() != kTarget.unopened) {
      problem = "the exit code " + std::to_string(static_cast<int>(error.code())) + ", expected " +
                std::to_string(static_cast<int>(kTarget.refusal));
    }
    return {.accepted = false, .complaint = problem.empty() ? "" : problem + ": " + shown(error.what())};
  } catch (const std::exception& error) {
    return {.accepted = false, .complaint = std::string(typeid(error).name()) + ", no Error: " + shown(error.what())};
  }
}

}  // namespace

Verdict run_target(std::string_view bytes) {
  const std::clock_t begin = std::clock();
  Verdict verdict = verdict_of(bytes);
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  if (seconds > kSecondsPerInput && verdict.complaint.empty()) {
    verdict.complaint = std::to_string(seconds) + " s of processor time";
  }
  return verdict;
}

}  // namespace strata::fuzz
