// SPDX-License-Identifier: MIT
// The part of a model's configuration that image data and the task on them read.
#pragma once

#include <concepts>
#include <cstdint>

namespace strata::modules {

struct ImageSizes {
  int64_t channels = 0, size = 0, classes = 0;  // size: height and width
  double label_smoothing = 0;
};

// The configuration of a model that classifies images.
template <class Config>
concept TakesImages = requires(const Config& config) {
  { config.image_sizes() } -> std::same_as<ImageSizes>;
};

}  // namespace strata::modules
