// SPDX-License-Identifier: MIT
// The `data:` section: the training and validation data.
#pragma once

#include <array>
#include <string>
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

}  // namespace strata::trainer
