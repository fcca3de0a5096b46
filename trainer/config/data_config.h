// SPDX-License-Identifier: MIT
// The `data:` section: the training and validation data.
#pragma once

#include <array>
#include <string>
#include <type_traits>
#include <variant>

#include "trainer/data/graphs/graph_data_config.h"
#include "trainer/data/images/image_data_config.h"
#include "trainer/data/text/text_data_config.h"

namespace strata::trainer {

struct DataConfig {
  std::variant<TextDataConfig, IdxDataConfig, ImageFolderConfig, WebDatasetConfig, ImageArraysConfig,
               NpzGraphDataConfig, OgbGraphDataConfig, OgbGraphsDataConfig, TextGraphDataConfig,
               SyntheticGraphDataConfig>
      type = {};
  static constexpr std::array<const char*, 10> kTypes = {
      "text",  "idx",       "image_folder", "webdataset", "safetensors",
      "graph", "ogb_graph", "ogb_graphs",   "text_graph", "synthetic_graph"};

  template <class Fields>
  void describe(Fields& fields) {
    fields.choose("type", type, kTypes, "type of the data");
  }
};

// Returns what data.documents says; joined for data that are no text.
inline DocumentUse documents_of(const DataConfig& data) {
  const auto* text = std::get_if<TextDataConfig>(&data.type);
  return text != nullptr ? text->documents : DocumentUse::joined;
}

// Returns the files with tokens for training; empty for data that are no text.
inline std::string token_files_of(const DataConfig& data) {
  const auto* text = std::get_if<TextDataConfig>(&data.type);
  return text != nullptr ? text->train : "";
}

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
