// SPDX-License-Identifier: MIT
// Finds steps whose loss or gradient norm is far above the steps before.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace strata::trainer {

struct Spike {
  std::string_view what;  // "loss" or "gradient norm"
  double value = 0;
  double usual = 0;  // the median of the steps before
};

std::string to_text(int64_t step, const Spike& spike);

// A value is a spike if it is more than four times the median of up to 64 steps before it, and if its logarithm is more
// than 12 standard deviations above. The deviation is estimated by the median of absolute deviations, which a few
// spikes do not change. The first 16 steps have none.
class SpikeWatch {
 public:
  // Takes the values of the next step. Values that are not finite or not positive are left out. After a spike, the next
  // 16 steps have none of the same kind.
  std::vector<Spike> add(double loss, double gradient_norm);

 private:
  struct Series {
    std::deque<double> logarithms;
    int quiet = 0;  // steps without another spike

    // Returns the usual value if `value` is a spike.
    std::optional<double> add(double value);
  };
  Series losses_, norms_;
};

}  // namespace strata::trainer
