// SPDX-License-Identifier: MIT
// Opens the images that a configuration names.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "modules/config/image_sizes.h"
#include "trainer/config/data_config.h"
#include "trainer/data/images/image_set.h"
#include "trainer/data/images/normalization.h"

namespace strata::trainer {

struct ImageSets {
  std::unique_ptr<ImageSet> training, validation;
  std::vector<Normalization> normalization;  // normalization of each channel, the same for both sets
  // Share of all images that may be unreadable. Nothing: the files were checked as a whole, so every image is readable.
  std::optional<double> bad_share = {};
};

// Throws Error (data) if the data as a whole cannot be used.
ImageSets open_images(const modules::ImageSizes& model, const DataConfig& data);

}  // namespace strata::trainer
