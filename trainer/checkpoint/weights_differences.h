// SPDX-License-Identifier: MIT
// How a folder of weights differs from the parameters of a model.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace strata::trainer {

// Names and shapes of tensors.
using Shapes = std::vector<std::pair<std::string, std::vector<int64_t>>>;

// Returns a line for each parameter that is missing, with the nearest stored name, for each that has another shape, and
// for each stored tensor that is no parameter. After 20 lines the others are counted. Empty if nothing differs.
std::string weights_differences(const Shapes& stored, const Shapes& parameters);

}  // namespace strata::trainer
