// SPDX-License-Identifier: MIT
// Describes the patterns of attention in a run, as text and as pictures.
#pragma once

#include <string>
#include <vector>

#include "trainer/config/trainer_config.h"

namespace strata::trainer {

// Returns the layers of each distinct pattern, the shares of visible pairs and of tiles, and what the levels compute
// and store. The text is empty if the model is no language model.
std::string pattern_report(const TrainerConfig& config);

// Writes FOLDER/attention_layer_3.svg for the pattern whose first layer is 3, and so on. If the run keeps documents
// apart, a row has four of them, which grow evenly. Makes the folder, and replaces files. Returns the paths. Throws an
// Error if the model is no language model or if a file cannot be written.
std::vector<std::string> write_pattern_pictures(const TrainerConfig& config, const std::string& folder);

}  // namespace strata::trainer
