// SPDX-License-Identifier: MIT
// Samples that cannot be used. Each is reported once, whichever ranks read it, and too many of them end the run.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "trainer/tasks/task_powers.h"

namespace strata::trainer {

class BadSamples {
 public:
  // `gather` returns the texts of all ranks in rank order. `task` is null if the task never finds bad samples.
  BadSamples(const FindsBadSamples* task, std::function<std::vector<std::string>(const std::string&)> gather)
      : task_(task), gather_(std::move(gather)) {}

  // Reports the samples that were found since the last call. Throws Error (data) if there are more than the run allows.
  // Collective.
  void report_new(const std::function<void(const std::string& line)>& tell);

 private:
  const FindsBadSamples* task_;
  const std::function<std::vector<std::string>(const std::string&)> gather_;
  std::set<std::string> told_;
};

}  // namespace strata::trainer
