// SPDX-License-Identifier: MIT
// The distinct patterns of attention and the distinct rotary positions in a language model, and the layers that have
// them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "configs/range.h"
#include "modules/config/model_attention.h"
#include "modules/config/model_config.h"

namespace strata::modules {

// Returns the patterns with their layers, in the order of their first layers. Each layer is in exactly one entry.
// Throws the Error of a wrong expression.
std::vector<LayersOfPattern> layers_by_pattern(const TransformerConfig& model);

// Returns the rotary positions with their layers, in the order of their first layers. Each layer is in exactly one
// entry.
std::vector<LayersOfRotary> layers_by_rotary(const TransformerConfig& model);

// The longest runs of equal distances, as a configuration names layers. Two layers are a run only if they are
// neighbors.
std::vector<configs::Range> ranges_of(std::span<const int64_t> ascending);

// Writes layers as a configuration does: "layer 3", "layers 0-30 step 2, 31".
std::string layers_text(std::span<const int64_t> ascending);

}  // namespace strata::modules
