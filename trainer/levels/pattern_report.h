// SPDX-License-Identifier: MIT
// Describes the patterns of attention in a run, as text and as pictures.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/config/trainer_config.h"
#include "trainer/levels/run_attention.h"

namespace strata::trainer {

// Returns the layers of each distinct pattern, the shares of visible pairs and of tiles, and what the levels compute
// and store. The text is empty if the model has no keys for patterns.
std::string pattern_report(const std::optional<RunAttention>& attention, const modules::KernelsConfig& kernels);

// Writes FOLDER/attention_layer_3.svg for the pattern whose first layer is 3, and so on. If the run keeps documents
// apart, a row has four of them, which grow evenly. Makes the folder, and replaces files. Returns the paths. Throws an
// Error if the model has no keys for patterns or if a file cannot be written.
std::vector<std::string> write_pattern_pictures(const modules::ModelConfig& model, const DataConfig& data,
                                                const std::string& folder);

}  // namespace strata::trainer
