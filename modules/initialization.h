// SPDX-License-Identifier: MIT
// Initial values of parameters: a function of (seed, name, element), so that every sharding starts from the same weights.
#pragma once

#include <cstdint>
#include <string>

namespace strata::modules {

// Writes elements [offset, offset + count) of the flattened parameter: ones for norm weights, zeros for biases, otherwise
// normal with deviation 0.02, divided by sqrt(2 * layers) for the two projections that end a residual branch (GPT-2).
// Normals are Box-Muller of Philox 4x32-10 (Salmon et al. 2011) keyed by the seed and the name, counted by element.
void initialize_parameter(const std::string& name, uint64_t seed, int64_t layers, int64_t offset, int64_t count,
                          float* values);

}  // namespace strata::modules
