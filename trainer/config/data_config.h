// SPDX-License-Identifier: MIT
// The `data:` section: the training and validation data.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <variant>

#include "trainer/data/graphs/graph_data_config.h"
#include "trainer/data/images/image_data_config.h"

namespace strata::trainer {

// joined: a sample is a window of one long text. separate: attention, positions and predictions stay in a document.
enum class Documents { joined, separate };
constexpr std::array<std::string_view, 2> names(Documents) { return {"joined", "separate"}; }

struct TextDataConfig {
  std::string train = {}, validation = {};
  Documents documents = Documents::joined;

  template <class Fields>
  void describe(Fields& fields) {
    fields.require("train", train, "token files to train on; a pattern such as data/train_*.bin means several files");
    fields.require("validation", validation, "token files for evaluations; a pattern means several files");
    fields.add(
        "documents", documents,
        "what tokens of a sample see; joined: all tokens before them; separate: those of their own document, whose "
        "positions start at 0; the first token of a document is then not predicted");
  }
};

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
inline Documents documents_of(const DataConfig& data) {
  const auto* text = std::get_if<TextDataConfig>(&data.type);
  return text != nullptr ? text->documents : Documents::joined;
}

}  // namespace strata::trainer
