// SPDX-License-Identifier: MIT
// How pixels become numbers: (pixel / 255 - mean) / deviation.
#pragma once

#include <cstdint>
#include <vector>

namespace strata::trainer {

struct Normalization {
  double mean = 0, deviation = 1;
};

// Mean and deviation (by 1 / (n - 1)) of these pixels; they become zeros when all are equal.
Normalization normalization_of(const std::vector<uint8_t>& pixels);

}  // namespace strata::trainer
