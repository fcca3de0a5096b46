// SPDX-License-Identifier: MIT
// Reads and writes config.json of GPT-2 and Llama as in Hugging Face transformers, and reads that of timm's vision
// transformers.
#pragma once

#include <string>
#include <variant>

#include "modules/config/model_config.h"

namespace strata::hf {

// Returns the text of config.json.
std::string write_config(const modules::TransformerConfig& model);

using ImportedModel = std::variant<modules::TransformerConfig, modules::VisionTransformerConfig>;

// Throws Error(storage), which starts with `path`, if the text is not a config.json of these families or a value is
// missing or has the wrong type. Features that Strata does not have are refused too.
ImportedModel read_config(const std::string& text, const std::string& path);

// Returns the model as one line of YAML: model: {...}
std::string model_section(const modules::TransformerConfig& model);

}  // namespace strata::hf
