// SPDX-License-Identifier: MIT
#include "tools/sensitivity/kept_layers.h"

#include <algorithm>
#include <cmath>

namespace strata::tools {

KeptLayers layers_to_keep(std::vector<Sensitivity> sensitivities, double limit,
                          const std::function<double(const std::vector<std::string>& keep)>& growth_without) {
  // A growth that is not a number is the worst of all.
  const auto rank = [](double growth) { return std::isnan(growth) ? HUGE_VAL : growth; };
  std::ranges::stable_sort(sensitivities, [&](const Sensitivity& one, const Sensitivity& other) {
    return rank(one.growth) > rank(other.growth);
  });
  const auto first = [&](size_t count) {
    std::vector<std::string> keep;
    for (size_t i = 0; i < count; ++i) keep.push_back(sensitivities[i].layer);
    return keep;
  };
  // `most` modules are enough; with all of them no module has the format, and nothing grows.
  size_t fewest = 0, most = sensitivities.size();
  double growth_of_most = 0;
  while (fewest < most) {
    const size_t middle = (fewest + most) / 2;
    const double growth = growth_without(first(middle));
    if (growth <= limit) {
      most = middle;
      growth_of_most = growth;
    } else {
      fewest = middle + 1;
    }
  }
  return {first(most), growth_of_most};
}

}  // namespace strata::tools
