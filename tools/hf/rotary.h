// SPDX-License-Identifier: MIT
// Rotary positions in the config.json of Hugging Face's decoders.
#pragma once

#include <nlohmann/json.hpp>

#include "modules/config/rotary_config.h"
#include "tools/hf/json_section.h"

namespace strata::hf {

// transformers up to version 4 writes rope_theta and rope_scaling; from version 5 on, both are in rope_parameters. Of a
// file with both, rope_scaling holds, as in transformers.
// `sequence` is the context length of the model. Throws Error(data) that names the key.
modules::Rotary read_rotary(const JsonSection& json, int64_t sequence);

// The two kinds of Gemma 3, of layers with a window and of those without.
struct RotaryPair {
  modules::Rotary sliding, full;
};
RotaryPair read_rotary_pair(const JsonSection& json, int64_t sequence);

// The value of rope_scaling; null without scaling.
nlohmann::ordered_json rope_scaling(const modules::RotaryScaling& scaling);

}  // namespace strata::hf
