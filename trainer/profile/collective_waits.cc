// SPDX-License-Identifier: MIT
#include "trainer/profile/collective_waits.h"

#include <sstream>

namespace strata::trainer::profile {

std::string collective_times(const std::vector<Step>& steps) {
  std::string text;
  for (const Step& step : steps) {
    for (const Activity& activity : step.activities) {
      // On CPUs the wait is a part of the scope in which the host waits; a start takes no time worth counting.
      const bool counts = step.on_device ? activity.is_collective() : activity.origin.level == kWait;
      if (counts) text += std::to_string(activity.own) + " ";
    }
  }
  return text;
}

std::vector<RankWaits> divide(const std::vector<std::string>& times_of_ranks) {
  std::vector<std::vector<int64_t>> times;
  for (const std::string& text : times_of_ranks) {
    std::istringstream in(text);
    times.emplace_back();
    for (int64_t time = 0; in >> time;) times.back().push_back(time);
    if (times.back().size() != times.front().size()) return {};
  }
  if (times.size() < 2 || times.front().empty()) return {};
  std::vector<RankWaits> waits(times.size());
  for (size_t i = 0; i < times.front().size(); ++i) {
    size_t last = 0;
    int64_t sum = 0;
    for (size_t rank = 0; rank < times.size(); ++rank) {
      sum += times[rank][i];
      if (times[rank][i] < times[last][i]) last = rank;
    }
    const int64_t transfer = times[last][i];
    for (size_t rank = 0; rank < times.size(); ++rank) {
      waits[rank].transfer += transfer;
      waits[rank].wait += times[rank][i] - transfer;
    }
    ++waits[last].last;
    waits[last].caused += sum - transfer * static_cast<int64_t>(times.size());
  }
  return waits;
}

}  // namespace strata::trainer::profile
