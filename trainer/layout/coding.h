// SPDX-License-Identifier: MIT
// Which weights of a run are all-gathered as codes of 8 bits instead of values in precision.compute.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "modules/config/parameter_group.h"
#include "sharding/parameters/coded_layout.h"
#include "trainer/layout/slot_counts.h"

namespace strata::trainer {

// How the parameters of a group are gathered if some of them travel as codes. These are the weights of linear layers in
// fp8 with scaling: current, which have one scale for each weight. Returns nothing if all travel in precision.compute:
//   - the run has no such layers,
//   - one rank holds all parameters,
//   - sharding.gather_format is compute,
//   - the group is no layer, or
//   - too few of its parameters are such weights for codes to save anything.
std::optional<sharding::CodedLayout> coded_layout(const BufferRules& rules, const modules::ParameterGroup& group);

// The number of weights in all groups that travel as codes.
int64_t coded_weights(const BufferRules& rules, const std::vector<modules::ParameterGroup>& table);

// Bytes on a rank for the scales of such weights, and for the largest magnitudes from which they follow.
int64_t bytes_of_scales(const BufferRules& rules, const std::vector<modules::ParameterGroup>& table);

// Returns a line for users that says which weights are gathered as codes. It warns if sharding.gather_format is codes
// and no weight travels as codes. It is empty if the format is compute.
std::string coding_report(const BufferRules& rules, const std::vector<modules::ParameterGroup>& table);

}  // namespace strata::trainer
