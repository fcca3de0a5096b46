// SPDX-License-Identifier: MIT
// The profile as people read it: a few tables of plain text.
#pragma once

#include <string>
#include <vector>

#include "trainer/profile/collective_waits.h"
#include "trainer/profile/steps.h"
#include "trainer/profile/summary.h"

namespace strata::trainer::profile {

struct Device {
  std::string name;  // "NVIDIA H200", "cpu"
  int rank = 0, ranks = 1;
  Peaks peaks = {};
  WorkOfCalls work_of_calls = {};  // empty: nothing is known
  bool one_group = true;           // all ranks take part in every collective
};

// Means over the steps: where the time goes, what each op takes, what each layer takes, and the longest kernels.
std::string table(const std::vector<Step>& steps, const Device& device, const std::vector<RankWaits>& waits);

// A kernel's name without the words that say nothing, cut to `width`.
std::string short_name(const std::string& kernel, size_t width);

}  // namespace strata::trainer::profile
