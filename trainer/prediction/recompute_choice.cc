// SPDX-License-Identifier: MIT
#include "trainer/prediction/recompute_choice.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace strata::trainer {
namespace {

// Returns a word, or a list of ranges.
GradientCheckpointing first_layers(int64_t count, Recompute first, int64_t layers, Recompute others) {
  if (count == 0) return {others};
  if (count == layers) return {first};
  std::vector<GradientCheckpointing::Layers> lines;
  const auto add = [&](int64_t begin, int64_t end, Recompute how) {
    if (how == Recompute::none) return;
    lines.push_back({{begin, end - 1}, how == Recompute::full ? std::nullopt : std::optional(how)});
  };
  add(0, count, first);
  add(count, layers, others);
  return {lines};
}

}  // namespace

RecomputeChoice cheapest_that_fits(int64_t layers, int64_t budget, const PredictStep& predict) {
  const auto choice = [&](int64_t count, Recompute first, Recompute others) -> RecomputeChoice {
    const GradientCheckpointing checkpointing = first_layers(count, first, layers, others);
    return {checkpointing, predict(checkpointing)};
  };
  const auto fits = [&](const RecomputeChoice& tried) { return tried.step.needed() <= budget; };
  // `found` with `count` layers fits, and 0 layers do not suffice.
  const auto fewest = [&](int64_t count, RecomputeChoice found, Recompute first, Recompute others) {
    for (int64_t too_few = 0; count - too_few > 1;) {
      const int64_t middle = too_few + (count - too_few) / 2;
      RecomputeChoice tried = choice(middle, first, others);
      if (fits(tried)) {
        count = middle;
        found = std::move(tried);
      } else {
        too_few = middle;
      }
    }
    return found;
  };

  const RecomputeChoice none = choice(0, Recompute::selective, Recompute::none);
  if (fits(none)) return none;
  const RecomputeChoice selective = choice(layers, Recompute::selective, Recompute::none);
  if (fits(selective)) return fewest(layers, selective, Recompute::selective, Recompute::none);

  RecomputeChoice least = none.step.needed() < selective.step.needed() ? none : selective;
  // The backward of a layer with `full` recomputes the whole layer, which may be the peak of the step. If the peak is
  // in layer k, every count above k + 1 has the same peak, so the search goes on at k + 1 or below. If the peak is
  // elsewhere, a smaller count only takes more, so the search ends.
  for (int64_t count = layers; count > 0;) {
    const RecomputeChoice full = choice(count, Recompute::full, Recompute::selective);
    if (fits(full)) return fewest(count, full, Recompute::full, Recompute::selective);
    if (full.step.needed() < least.step.needed()) least = full;
    const int64_t layer = full.step.backward_of.value_or(layers);
    if (layer >= count) break;
    count = std::min(count - 1, layer + 1);
  }
  return least;
}

}  // namespace strata::trainer
