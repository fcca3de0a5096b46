// SPDX-License-Identifier: MIT
// Facts about `data:` that hold for every kind of image data.
#pragma once

#include <type_traits>
#include <variant>

#include "trainer/config/data_config.h"

namespace strata::trainer {

// Returns the mixing of images. The values are 0 if the data are no images.
inline ImageDataConfig image_mixing(const DataConfig& data) {
  const auto read = []<class Data>(const Data& images) -> ImageDataConfig {
    if constexpr (std::is_base_of_v<ImageDataConfig, Data>) return images;
    return {};
  };
  return std::visit(read, data.type);
}

// True if images are files that are decoded when they are read. Some of them may turn out to be unreadable then.
inline bool has_encoded_images(const DataConfig& data) {
  return std::visit([]<class Data>(const Data&) { return std::is_base_of_v<EncodedImagesConfig, Data>; }, data.type);
}

// True if images are stored pixel by pixel, as decoded files are. Other images are stored channel by channel.
inline bool has_channels_last(const DataConfig& data) { return has_encoded_images(data); }

}  // namespace strata::trainer
