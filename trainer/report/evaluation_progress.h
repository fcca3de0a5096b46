// SPDX-License-Identifier: MIT
// Says how far a long evaluation is, because nothing else is printed while it runs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "base/text/grouped_digits.h"

namespace strata::trainer {

class EvaluationProgress {
 public:
  static constexpr double kSecondsBetweenLines = 30;

  // `begin` and `now` below are seconds of one clock.
  EvaluationProgress(int64_t samples, double begin) : samples_(samples), begin_(begin), told_(begin) {}

  // Call it after each round of `more` samples. Returns a line if the last one, or the begin, is long ago.
  std::optional<std::string> add(int64_t more, double now) {
    seen_ = std::min(seen_ + more, samples_);
    if (now - told_ < kSecondsBetweenLines || seen_ == samples_) return std::nullopt;
    told_ = now;
    const double left = (now - begin_) * static_cast<double>(samples_ - seen_) / static_cast<double>(seen_);
    return "evaluation: " + grouped_digits(seen_) + " of " + grouped_digits(samples_) + " samples, about " +
           grouped_digits(static_cast<int64_t>(left)) + " s left";
  }

 private:
  const int64_t samples_;
  const double begin_;
  double told_;
  int64_t seen_ = 0;
};

}  // namespace strata::trainer
