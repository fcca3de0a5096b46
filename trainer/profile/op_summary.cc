// SPDX-License-Identifier: MIT
#include "trainer/profile/op_summary.h"

#include <algorithm>
#include <set>
#include <utility>

namespace strata::trainer::profile {

void OpTotal::add(const OpTotal& other) {
  calls += other.calls;
  nanoseconds += other.nanoseconds;
  work.bytes += other.work.bytes;
  work.flops += other.work.flops;
  for (const auto& [name, total] : other.kernels) {
    kernels[name].calls += total.calls;
    kernels[name].nanoseconds += total.nanoseconds;
  }
}

OpSummary summary_of(const RecordedStep& step) {
  OpSummary summary;
  std::set<std::pair<OpKey, int64_t>> calls;
  for (const Activity& activity : step.activities) {
    const Origin& origin = activity.origin;
    const OpKey key{origin.layer, origin.phase, origin.op, origin.level, origin.backward};
    OpTotal& total = summary[key];
    // Activities that belong to no call of an op are counted one by one.
    if (origin.call < 0 || calls.insert({key, origin.call}).second) {
      ++total.calls;
      total.work.bytes += origin.work.bytes;
      total.work.flops += origin.work.flops;
    }
    total.nanoseconds += activity.own;
    KernelTotal& kernel = total.kernels[activity.name];
    ++kernel.calls;
    kernel.nanoseconds += activity.own;
  }
  return summary;
}

double roofline_share(const kernels::Work& work, const Peaks& peaks, int64_t nanoseconds) {
  const Rates& rates = peaks.roofline();
  if (nanoseconds <= 0 || rates.bytes <= 0 || rates.flops <= 0) return 0;
  return std::max(work.bytes / rates.bytes, work.flops / rates.flops) / (1e-9 * static_cast<double>(nanoseconds));
}

}  // namespace strata::trainer::profile
