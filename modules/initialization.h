// SPDX-License-Identifier: MIT
// Initial values of parameters: a function of (seed, name, element), so that every sharding starts from the same
// weights.
#pragma once

#include <cstdint>

#include "modules/config/parameter_table.h"

namespace strata::modules {

// Writes elements [offset, offset + count) of the flattened parameter. Normals are Box-Muller of Philox 4x32-10 (Salmon
// et al. 2011) keyed by the seed and the name and counted by element.
void initialize_parameter(const Parameter& parameter, uint64_t seed, int64_t layers, int64_t offset, int64_t count,
                          float* values);

}  // namespace strata::modules
