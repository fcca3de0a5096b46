// SPDX-License-Identifier: MIT
#include "trainer/report/straggler_watch.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/text/formatted.h"

namespace strata::trainer {
namespace {

// A rank is named if it delays 12 of the last 15 steps by 20 ms and by 5 %, so within 20 steps.
constexpr size_t kWindow = 15;
constexpr std::ptrdiff_t kSlowSteps = 12;
constexpr double kLeastMilliseconds = 20, kLeastRatio = 1.05;
// Noise is not named: the median delay has to be twice its median deviation, and twice the largest median delay that
// any other rank had of late. A peak counts for half after 350 steps.
constexpr double kOverNoise = 2, kPeakDecay = 0.998;
constexpr double kMostPause = 3600;

// Returns the median of sorted values, as if the one at `left_out` were not there.
double median_of_others(const std::vector<double>& sorted, size_t left_out) {
  const size_t others = sorted.size() - 1;
  const auto at = [&](size_t i) { return sorted[i < left_out ? i : i + 1]; };
  return (at((others - 1) / 2) + at(others / 2)) / 2;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return values.size() % 2 == 1 ? *middle : (*middle + *std::max_element(values.begin(), middle)) / 2;
}

double median_deviation(std::vector<double> values, double center) {
  for (double& value : values) value = std::abs(value - center);
  return median(std::move(values));
}

// Returns, for each value, by how much it is above the median of the others.
std::vector<double> excess_of(const std::vector<double>& values) {
  std::vector<double> sorted = values, excess;
  std::sort(sorted.begin(), sorted.end());
  for (const double value : values) {
    const auto place = std::lower_bound(sorted.begin(), sorted.end(), value) - sorted.begin();
    excess.push_back(value - median_of_others(sorted, static_cast<size_t>(place)));
  }
  return excess;
}

}  // namespace

std::string to_text(const Straggler& straggler) {
  return formatted(
      "rank %d delays the others: its own work takes %.0f ms longer in most steps than that of the median rank "
      "(most of it: %.*s), which makes a step up to %.2f times as long",
      straggler.rank, straggler.milliseconds, static_cast<int>(straggler.phase.size()), straggler.phase.data(),
      straggler.ratio);
}

StragglerWatch::StragglerWatch(int ranks, std::vector<std::string_view> phases)
    : phases_(std::move(phases)), ranks_(static_cast<size_t>(ranks)) {}

std::vector<Straggler> StragglerWatch::add(double milliseconds, std::span<const float> work, double now) {
  const size_t ranks = ranks_.size(), phases = phases_.size();
  if (ranks < 2) return {};
  std::vector<double> milliseconds_of_ranks;
  for (size_t rank = 0; rank < ranks; ++rank) {
    const auto rank_seconds = work.subspan(rank * phases, phases);
    milliseconds_of_ranks.push_back(1e3 * std::accumulate(rank_seconds.begin(), rank_seconds.end(), 0.0));
  }
  steps_.push_back({milliseconds, {work.begin(), work.end()}, excess_of(milliseconds_of_ranks)});
  if (steps_.size() > kWindow) steps_.pop_front();

  std::vector<double> durations;
  for (const Step& one : steps_) durations.push_back(one.milliseconds);
  const double duration = median(std::move(durations));
  const double least = std::max(kLeastMilliseconds, duration * (1 - 1 / kLeastRatio));
  std::vector<double> excess;                   // excess of one rank
  std::vector<std::pair<size_t, double>> slow;  // rank and its median excess
  double peak = 0;                              // peak of the ranks that are not slow
  for (size_t rank = 0; rank < ranks; ++rank) {
    excess.clear();
    for (const Step& one : steps_) excess.push_back(one.excess[rank]);
    const double center = median(excess);
    // The median of a few steps does not measure noise, because the first step, which initializes, is among them.
    if (steps_.size() == kWindow) ranks_[rank].peak = std::max(center, kPeakDecay * ranks_[rank].peak);
    const auto is_slow = [&](double one) { return one >= least; };
    if (std::count_if(excess.begin(), excess.end(), is_slow) >= kSlowSteps &&
        center >= kOverNoise * median_deviation(excess, center)) {
      slow.emplace_back(rank, center);
    } else {
      peak = std::max(peak, ranks_[rank].peak);
    }
  }
  std::vector<Straggler> found;
  for (const auto& [index, delay] : slow) {
    Rank& rank = ranks_[index];
    if (delay < kOverNoise * peak || now < rank.quiet_until) continue;
    rank.quiet_until = now + rank.pause;
    rank.pause = std::min(2 * rank.pause, kMostPause);
    // The result is at least a hundredth of the duration, because duration and work may have been measured in different
    // steps.
    const double without = std::max(duration - delay, 0.01 * duration);
    found.push_back({static_cast<int>(index), slowest_phase(index), delay, duration / without});
  }
  return found;
}

std::string_view StragglerWatch::slowest_phase(size_t rank) const {
  size_t slowest = 0;
  double most = 0;
  for (size_t phase = 0; phase < phases_.size(); ++phase) {
    std::vector<double> excess;
    for (const Step& step : steps_) {
      std::vector<double> seconds;
      for (size_t i = phase; i < step.work.size(); i += phases_.size()) seconds.push_back(step.work[i]);
      excess.push_back(excess_of(seconds)[rank]);
    }
    const double phase_excess = median(std::move(excess));
    if (phase_excess <= most) continue;
    most = phase_excess;
    slowest = phase;
  }
  return phases_[slowest];
}

}  // namespace strata::trainer
