// SPDX-License-Identifier: MIT
// The time of each op of each layer, summed over calls and steps, and its least work.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "trainer/profile/peaks.h"
#include "trainer/profile/steps.h"

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

// The least bytes and FLOPs of an op; 0 means unknown.
struct LeastWork {
  double bytes = 0, flops = 0;
};

struct OpTotal {
  int64_t calls = 0, nanoseconds = 0;
  LeastWork work = {};  // set where it is known, but not by summary_of
  std::map<std::string, KernelTotal> kernels;
  void add(const OpTotal& other);
};

using Summary = std::map<OpKey, OpTotal>;
Summary summary_of(const Step& step);

// Returns the least work of the `calls` of an op in one step. If an op is called at several shapes, each call counts as
// their mean.
using WorkOfCalls = std::function<LeastWork(const OpKey& key, int64_t calls)>;

// Returns the share of the roofline that `nanoseconds` reach; 0 means unknown.
double roofline_share(const LeastWork& work, const Peaks& peaks, int64_t nanoseconds);

}  // namespace strata::trainer::profile
