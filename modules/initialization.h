// SPDX-License-Identifier: MIT
// Initialization of parameters. A value is a function of (seed, name, element), so every sharding starts from the same
// weights.
#pragma once

#include <cstdint>

#include "modules/config/parameter_group.h"

namespace strata::modules {

// Writes elements [offset, offset + count) of the flattened parameter. Normal values come from Box-Muller and Philox
// 4x32-10 (Salmon et al. 2011). The key is the seed and the name, the counter is the element.
void initialize_parameter(const Parameter& parameter, uint64_t seed, int64_t layers, int64_t offset, int64_t count,
                          float* values);

}  // namespace strata::modules
