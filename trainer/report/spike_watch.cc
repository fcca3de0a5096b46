// SPDX-License-Identifier: MIT
#include "trainer/report/spike_watch.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/quantile.h"
#include "base/text/formatted.h"

namespace strata::trainer {
namespace {

constexpr size_t kFewest = 16, kMost = 64;  // steps before
constexpr int kQuiet = 16;
constexpr double kTimes = 4, kDeviations = 12;
// The median of absolute deviations of a normal distribution, times this, is its standard deviation.
constexpr double kOfMedian = 1.4826;

}  // namespace

std::string to_text(int64_t step, const Spike& spike) {
  return formatted(
      "step %lld: the %.*s is %.4g, and was about %.4g in the steps before; it may come from a bad sample, a "
      "learning rate that is too high, or a fault of the hardware, which a replay of the step tells apart",
      static_cast<long long>(step), static_cast<int>(spike.what.size()), spike.what.data(), spike.value, spike.usual);
}

std::vector<Spike> SpikeWatch::add(double loss, double gradient_norm) {
  std::vector<Spike> spikes;
  if (const auto usual = losses_.add(loss)) spikes.push_back({"loss", loss, *usual});
  if (const auto usual = norms_.add(gradient_norm)) spikes.push_back({"gradient norm", gradient_norm, *usual});
  return spikes;
}

std::optional<double> SpikeWatch::Series::add(double value) {
  if (!std::isfinite(value) || value <= 0) return std::nullopt;
  const double logarithm = std::log(value);
  std::optional<double> usual;
  if (logarithms.size() >= kFewest) {
    const std::vector<double> before(logarithms.begin(), logarithms.end());
    const double middle = median(before);
    std::vector<double> deviations;
    for (const double other : before) deviations.push_back(std::abs(other - middle));
    const double above = logarithm - middle;
    const bool is_spike = above > std::log(kTimes) && above > kDeviations * kOfMedian * median(deviations);
    if (is_spike && quiet == 0) usual = std::exp(middle);
  }
  quiet = usual ? kQuiet : std::max(quiet - 1, 0);
  logarithms.push_back(logarithm);
  if (logarithms.size() > kMost) logarithms.pop_front();
  return usual;
}

}  // namespace strata::trainer
