// SPDX-License-Identifier: MIT
// The images that a configuration names.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "modules/config/model_config.h"
#include "trainer/config/data_config.h"
#include "trainer/data/images/image_set.h"
#include "trainer/data/images/normalization.h"

namespace strata::trainer {

struct ImageSets {
  std::unique_ptr<ImageSet> training, validation;
  std::vector<Normalization> normalization;  // of each channel, for both
  std::optional<double> bad_share = {};      // of all of them that may be unreadable; nothing: none can be
};

// Throws Error (data) for what is wrong with them as a whole.
ImageSets open_images(const modules::VisionTransformerConfig& model, const DataConfig& data);

}  // namespace strata::trainer
