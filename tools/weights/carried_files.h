// SPDX-License-Identifier: MIT
// Files of a Hugging Face folder that training does not read. They go with the weights: an import keeps them, and an
// export of a run that began with these weights has them again.
#pragma once

#include <string>

namespace strata::tools {

// Copies the tokenizer's files and generation_config.json from a Hugging Face folder beside imported weights, and its
// config.json under another name. Replaces the files of an earlier import, whose weights were removed.
void keep_carried_files(const std::string& hf_folder, const std::string& weights);

// Copies them from the weights that a run began with beside exported ones. Files that are there already stay.
void add_carried_files(const std::string& weights, const std::string& exported);

// Returns the text of a config.json with the ids of special tokens that the imported one had: the ids of the first and
// the last token of a text, and of padding. Throws an Error (data) if what the import kept is no JSON object, and an
// Error (storage) if it cannot be read.
std::string with_special_tokens(const std::string& config, const std::string& weights);

}  // namespace strata::tools
