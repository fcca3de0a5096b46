// SPDX-License-Identifier: MIT
// The config.json of Hugging Face's GPT-2 and Llama models, and the `model:` section that says the same.
#pragma once

#include <string>

#include "modules/model_config.h"

namespace strata::hf {

// The text of config.json.
std::string write_config(const modules::TransformerConfig& model);

// Throws Error(storage) that begins with `path` when the text is no config.json of GPT-2 or Llama, when a value is
// missing or of another kind, or when it asks for something that these families do not do here.
modules::TransformerConfig read_config(const std::string& text, const std::string& path);

// One line of YAML: model: {...}
std::string model_section(const modules::TransformerConfig& model);

}  // namespace strata::hf
