// SPDX-License-Identifier: MIT
// What each op of each layer took, summed over calls and steps, and what it must do at least.
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

// The least that an op reads, writes and computes; zeros: not known.
struct LeastWork {
  double bytes = 0, flops = 0;
};

struct OpTotal {
  int64_t calls = 0, nanoseconds = 0;
  LeastWork work = {};  // where it is known; not by summary_of
  std::map<std::string, KernelTotal> kernels;
  void add(const OpTotal& other);
};

using Summary = std::map<OpKey, OpTotal>;
Summary summary_of(const Step& step);

// Of the `calls` of an op in one step. Of an op that is called at several shapes a call is their mean.
using WorkOfCalls = std::function<LeastWork(const OpKey& key, int64_t calls)>;

// The share of the roofline that `nanoseconds` reach; 0: not known.
double roofline_share(const LeastWork& work, const Peaks& peaks, int64_t nanoseconds);

}  // namespace strata::trainer::profile
