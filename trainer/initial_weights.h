// SPDX-License-Identifier: MIT
// Loads weights that a new run starts from instead of random ones.
#pragma once

#include <string>

#include "base/ranks.h"
#include "trainer/model/sharded_model.h"

namespace strata::trainer {

// Fills masters and compute copies from a folder of weights with Strata's names. Each rank reads only its shards.
// Returns a sentence if the weights have 16 bits and masters have more, otherwise "". Throws Error (configuration) with
// all differences if the model has other parameters. Collective.
std::string load_initial_weights(const std::string& folder, ShardedModel& model, const Ranks& ranks);

}  // namespace strata::trainer
