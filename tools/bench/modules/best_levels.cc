// SPDX-License-Identifier: MIT
#include "tools/bench/modules/best_levels.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/runtime/call_observer.h"

namespace strata::tools {
namespace {

using kernels::OpShape;

// Counts the forward calls of each op at each shape.
class CallCounter : public kernels::CallObserver {
 public:
  struct Calls {
    OpShape shape;
    int64_t count = 1;
  };

  void call(const OpShape& shape, kernels::Level /*level*/, bool backward, at::ScalarType /*dtype*/) override {
    if (backward) return;
    const auto same = std::ranges::find(calls_, shape, &Calls::shape);
    same == calls_.end() ? calls_.push_back({shape}) : void(++same->count);
  }

  const std::vector<Calls>& calls() const { return calls_; }

 private:
  std::vector<Calls> calls_;
};

}  // namespace

LevelChoice best_levels(const std::function<void()>& forward, at::ScalarType dtype, at::Device device,
                        const MeasureLevels& measure_levels) {
  CallCounter counter;
  {
    const kernels::ObservedCalls observed(counter);
    forward();
  }
  LevelTotals totals;
  for (const auto& [shape, count] : counter.calls()) {
    measure_levels(shape, dtype, device, levels_of(shape.op(), device), [&](const Measurement& measured) {
      std::optional<double> microseconds;
      if (measured.timing) {
        microseconds = 1e6 * static_cast<double>(count) * measured.timing->total();
      }
      totals.add(shape.key(), measured.level, microseconds);
    });
  }
  return totals.best();
}

}  // namespace strata::tools
