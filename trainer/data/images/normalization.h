// SPDX-License-Identifier: MIT
// The normalization of pixels: (pixel / 255 - mean) / deviation.
#pragma once

#include <cstdint>
#include <vector>

namespace strata::trainer {

struct Normalization {
  double mean = 0, deviation = 1;
};

// Returns the mean and the standard deviation (with 1 / (n - 1)) of the pixels. If all pixels are equal, the deviation
// is 1, so that they become zeros.
Normalization normalization_of(const std::vector<uint8_t>& pixels);

}  // namespace strata::trainer
