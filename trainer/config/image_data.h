// SPDX-License-Identifier: MIT
// What `data:` says about images, whichever kind of images they are.
#pragma once

#include <type_traits>
#include <variant>

#include "trainer/config/data_config.h"

namespace strata::trainer {

// Nothing is mixed where the data are no images.
inline ImageMixingConfig image_mixing(const DataConfig& data) {
  const auto read = []<class Data>(const Data& images) -> ImageMixingConfig {
    if constexpr (std::is_base_of_v<ImageMixingConfig, Data>) return images;
    return {};
  };
  return std::visit(read, data.type);
}

// Images that are decoded lie pixel by pixel, the others channel by channel.
inline bool lie_by_pixels(const DataConfig& data) {
  return std::visit([]<class Data>(const Data&) { return std::is_base_of_v<EncodedImagesConfig, Data>; }, data.type);
}

}  // namespace strata::trainer
