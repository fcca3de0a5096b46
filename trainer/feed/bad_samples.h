// SPDX-License-Identifier: MIT
// Samples of a run that cannot be used: each is told once, whichever ranks met it, and too many end the run.
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
  // `gather` gives all ranks' texts in rank order.
  // Null: the task finds none.
  BadSamples(const FindsBadSamples* task, std::function<std::vector<std::string>(const std::string&)> gather)
      : task_(task), gather_(std::move(gather)) {}

  // Collective. Throws Error (data) when there are more than the run allows.
  void tell_new_ones(const std::function<void(const std::string& line)>& tell);

 private:
  const FindsBadSamples* task_;
  const std::function<std::vector<std::string>(const std::string&)> gather_;
  std::set<std::string> told_;
};

}  // namespace strata::trainer
