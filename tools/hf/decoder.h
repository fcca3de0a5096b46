// SPDX-License-Identifier: MIT
// The dense decoders of Hugging Face's transformers whose block is a configuration of Strata's.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "modules/config/model_config.h"
#include "tools/hf/json_section.h"

namespace strata::hf {

struct Decoder {
  // Which layers have `causal & window(n)` in place of `causal`, with one n. all_layers: all or none.
  enum class Windows { none, all_layers, some_layers };

  std::string_view type, architecture;  // model_type, architectures
  Windows windows = Windows::none;
  bool heads_divide_width = false;  // transformers refuses other widths, though the width of a head is a key
  bool qkv_biases = false;
  modules::QueryKeyNorm query_key_norm = modules::QueryKeyNorm::none;
  modules::NormPlacement norm_placement = modules::NormPlacement::before;
  // Gemma 2 and 3: a gate of gelu_tanh, embeddings times sqrt(width), and norms whose stored weight is added to 1.
  bool is_gemma = false;
  bool has_softcaps = false;           // softcaps of scores and of logits
  bool has_rotary_by_windows = false;  // rotary positions of layers with a window, and others of those without
  int64_t window_period = 0;  // without layer_types, all but the last of each group of this many layers have a window
};

// Returns null if there is none of this model_type.
const Decoder* find_decoder(std::string_view type);

// Returns the family that has the block of `model`. Throws Error(configuration) that says why no family has it.
const Decoder& decoder_of(const modules::TransformerConfig& model);

// Returns config.json without the keys that all models have.
nlohmann::ordered_json decoder_config(const modules::TransformerConfig& model);

// Throws Error(data) that names the key.
modules::TransformerConfig read_decoder(const JsonSection& json, const Decoder& decoder);

}  // namespace strata::hf
