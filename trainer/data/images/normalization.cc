// SPDX-License-Identifier: MIT
#include "trainer/data/images/normalization.h"

#include <array>
#include <cmath>

namespace strata::trainer {

Normalization normalization_of(const std::vector<uint8_t>& pixels) {
  std::array<double, 256> histogram{};
  for (const uint8_t pixel : pixels) ++histogram[pixel];
  double sum = 0, square_sum = 0;  // exact: sums of whole numbers below 2^53
  for (size_t pixel = 0; pixel < histogram.size(); ++pixel) {
    const double value = static_cast<double>(pixel);
    sum += histogram[pixel] * value;
    square_sum += histogram[pixel] * value * value;
  }
  const double n = static_cast<double>(pixels.size()), mean = sum / n;
  const double variance = n > 1 ? (square_sum - n * mean * mean) / (n - 1) : 0;
  return {mean / 255, variance > 0 ? std::sqrt(variance) / 255 : 1};
}

}  // namespace strata::trainer
