// SPDX-License-Identifier: MIT
// The config.json of GPT-2 and Llama as Hugging Face's transformers have them, and of timm's vision transformers.
#pragma once

#include <string>
#include <variant>

#include "modules/config/model_config.h"

namespace strata::hf {

// The text of config.json.
std::string write_config(const modules::TransformerConfig& model);

using ImportedModel = std::variant<modules::TransformerConfig, modules::VisionTransformerConfig>;

// Throws Error(storage) that begins with `path` when the text is no config.json of these families, when a value is
// missing or of another kind, or when it asks for something that they do not do here.
ImportedModel read_config(const std::string& text, const std::string& path);

// One line of YAML that says the same: model: {...}
std::string model_section(const modules::TransformerConfig& model);

}  // namespace strata::hf
