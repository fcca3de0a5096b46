// SPDX-License-Identifier: MIT
// The part of a model's configuration that image data and the task on them read.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>

#include "configs/checks.h"

namespace strata::modules {

struct ImageSizes {
  int64_t channels = 0, size = 0, classes = 0;  // size: height and width
  double label_smoothing = 0;
};

// Checks that a patch has at most 10^8 values. So the elements and bytes of its embedding fit into 64 bits.
inline void check_patch(int64_t channels, int64_t patch, configs::Checks& checks) {
  constexpr int64_t kMost = 100'000'000;
  const int64_t values = channels * patch * patch;
  if (!checks.can_check({"channels"}) || values <= kMost) return;
  checks.fail("patch", std::to_string(channels) + " channels x " + std::to_string(patch) + " x " +
                           std::to_string(patch) + " = " + std::to_string(values) + " values; expected at most " +
                           std::to_string(kMost));
}

// The configuration of a model that classifies images.
template <class Config>
concept TakesImages = requires(const Config& config) {
  { config.image_sizes() } -> std::same_as<ImageSizes>;
};

}  // namespace strata::modules
