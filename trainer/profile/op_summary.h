// SPDX-License-Identifier: MIT
// The time of each op of each layer, summed over calls and steps, and their minimal work.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>

#include "trainer/profile/peaks.h"
#include "trainer/profile/recorded_steps.h"

namespace strata::trainer::profile {

struct OpKey {
  int64_t layer = -1;
  std::string phase = {}, op = {}, level = {};
  bool backward = false;
  auto operator<=>(const OpKey&) const = default;
};

struct KernelTotal {
  int64_t calls = 0, nanoseconds = 0;
};

struct OpTotal {
  int64_t calls = 0, nanoseconds = 0;
  kernels::Work work = {};  // the minimal work of the calls together; 0 means unknown
  std::map<std::string, KernelTotal> kernels;
  void add(const OpTotal& other);
};

using OpSummary = std::map<OpKey, OpTotal>;
OpSummary summary_of(const RecordedStep& step);

// Returns the share of the roofline that `nanoseconds` reach; 0 means unknown. The roofline has the measured rates of
// the device, or else the advertised ones.
double roofline_share(const kernels::Work& work, const Peaks& peaks, int64_t nanoseconds);

}  // namespace strata::trainer::profile
