// SPDX-License-Identifier: MIT
// Weights that a new run starts from instead of random ones.
#pragma once

#include <string>

#include "base/ranks.h"
#include "trainer/model/sharded_model.h"

namespace strata::trainer {

// Fills masters and compute copies from a folder of weights under this project's names; each rank reads what it holds.
// Throws Error(configuration) with all differences when the folder has other parameters than the model. Collective.
void load_initial_weights(const std::string& folder, ShardedModel& model, const Ranks& ranks);

}  // namespace strata::trainer
