// SPDX-License-Identifier: MIT
// Prints the profile for people: a few tables of plain text.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "trainer/profile/collective_waits.h"
#include "trainer/profile/peaks.h"
#include "trainer/profile/recorded_steps.h"

namespace strata::trainer::profile {

struct Device {
  std::string name;  // "NVIDIA H200", "cpu"
  int rank = 0, ranks = 1;
  Peaks peaks = {};
  bool one_group = true;  // true if all ranks take part in every collective
};

// Returns means over the steps: the time of each part, op and layer, and the longest kernels. All steps are dense, or
// all are pruned.
std::string profile_table(std::span<const RecordedStep> steps, const Device& device,
                          const std::vector<RankWaits>& waits);

// Returns a kernel's name without uninformative parts, cut to `width` characters.
std::string short_name(const std::string& kernel, size_t width);

}  // namespace strata::trainer::profile
