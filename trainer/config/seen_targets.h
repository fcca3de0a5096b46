// SPDX-License-Identifier: MIT
// Finds targets of language models that attention shows: position t is trained to predict token t + 1, and with a
// pattern that sees later keys it may see that token.
#pragma once

#include <string>
#include <vector>

#include "modules/config/model_config.h"
#include "trainer/config/load_config.h"

namespace strata::trainer {

// Returns for each position of a sample whether its target is ignored, because later tokens reach the position. In a
// prefix language model these are the positions of its prefix but the last one. No target of other models is ignored:
// either no position sees a later token, or check_targets() refuses to train them.
std::vector<bool> ignored_positions(const modules::TransformerConfig& model);

// Returns a line for each key whose pattern shows targets that are not ignored, without its place: "" if there is none.
std::string seen_targets(const TrainerConfig& config);

// For a program that trains. Throws configs::ConfigErrors with the places and the lines of seen_targets().
void check_targets(const LoadedConfig& loaded);

}  // namespace strata::trainer
