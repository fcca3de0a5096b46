// SPDX-License-Identifier: MIT
// Reads and writes config.json of GPT-2 and of dense decoders as in Hugging Face transformers, and reads the one of
// timm's vision transformers.
#pragma once

#include <string>
#include <variant>

#include "modules/config/model_config.h"

namespace strata::hf {

// Returns the text of config.json. dtype is the type of the weights: float32, bfloat16 or float16. Throws
// Error(configuration) if no model of transformers has this block.
std::string write_config(const modules::TransformerConfig& model, const std::string& dtype);

using ImportedModel = std::variant<modules::TransformerConfig, modules::VisionTransformerConfig>;

// Throws Error(data), which starts with `path`, if the text is not a config.json of these families or a value is
// missing or has the wrong type. Features that Strata does not have are refused too.
ImportedModel read_config(const std::string& text, const std::string& path);

// Returns the model as YAML: the line model: {...}, and the line layers: [...] if layers differ.
std::string model_section(const modules::TransformerConfig& model);

}  // namespace strata::hf
