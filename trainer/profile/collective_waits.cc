// SPDX-License-Identifier: MIT
#include "trainer/profile/collective_waits.h"

#include <map>
#include <sstream>
#include <utility>

namespace strata::trainer::profile {
namespace {

// Nanoseconds of the collectives of each (op, layer), in the order in which a rank ran them.
using Times = std::map<std::pair<std::string, int64_t>, std::vector<int64_t>>;

Times times_in(const std::string& text) {
  std::istringstream in(text);
  Times times;
  int64_t layer = 0, nanoseconds = 0;
  std::string op;
  while (in >> layer >> nanoseconds >> std::ws && std::getline(in, op)) times[{op, layer}].push_back(nanoseconds);
  return times;
}

bool pair_up(const Times& a, const Times& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [name, times] : a) {
    const auto other = b.find(name);
    if (other == b.end() || other->second.size() != times.size()) return false;
  }
  return true;
}

// `times` are the nanoseconds of one collective on all ranks.
void divide_one(const std::vector<int64_t>& times, std::vector<RankWaits>& waits) {
  size_t last = 0;
  int64_t sum = 0;
  for (size_t rank = 0; rank < times.size(); ++rank) {
    sum += times[rank];
    if (times[rank] < times[last]) last = rank;
  }
  const int64_t transfer = times[last];
  for (size_t rank = 0; rank < times.size(); ++rank) {
    waits[rank].transfer += transfer;
    waits[rank].wait += times[rank] - transfer;
  }
  ++waits[last].last;
  waits[last].caused += sum - transfer * static_cast<int64_t>(times.size());
}

}  // namespace

std::string collective_times(std::span<const RecordedStep> steps) {
  std::string text;
  for (const RecordedStep& step : steps) {
    for (const Activity& activity : step.activities) {
      const Origin& origin = activity.origin;
      // On CPUs, waiting is part of the scope in which the host waits; starting a collective takes negligible time.
      const bool counts =
          step.on_device ? activity.is_collective() && activity.is_collective_kernel() : origin.level == kWait;
      if (counts) text += std::to_string(origin.layer) + " " + std::to_string(activity.own) + " " + origin.op + "\n";
    }
  }
  return text;
}

std::vector<RankWaits> divide(const std::vector<std::string>& times_of_ranks) {
  std::vector<Times> ranks;
  for (const std::string& text : times_of_ranks) {
    ranks.push_back(times_in(text));
    if (!pair_up(ranks.front(), ranks.back())) return {};
  }
  if (ranks.size() < 2 || ranks.front().empty()) return {};
  std::vector<RankWaits> waits(ranks.size());
  for (const auto& [name, times] : ranks.front()) {
    for (size_t i = 0; i < times.size(); ++i) {
      std::vector<int64_t> rank_times;
      for (const Times& rank : ranks) rank_times.push_back(rank.at(name)[i]);
      divide_one(rank_times, waits);
    }
  }
  return waits;
}

}  // namespace strata::trainer::profile
