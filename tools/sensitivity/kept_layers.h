// SPDX-License-Identifier: MIT
// Which layers a run should keep out of a number format, so that its loss grows by no more than a limit.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace strata::tools {

// The growth of the loss, in nats, if this layer alone has the format.
struct Sensitivity {
  std::string layer;
  double growth = 0;
};

struct KeptLayers {
  std::vector<std::string> keep;  // most sensitive first
  double growth = 0;              // growth of the loss, with the format in all others
};

// Keeps the most sensitive layers, as few as bring the growth to at most `limit`. `growth_without(keep)` measures it
// with the format in all layers but `keep`. Their number is found by bisection, with log2(layers) + 1
// measurements, because the growth falls with it. If all but one are too few, all are kept.
KeptLayers layers_to_keep(std::vector<Sensitivity> sensitivities, double limit,
                          const std::function<double(const std::vector<std::string>& keep)>& growth_without);

}  // namespace strata::tools
