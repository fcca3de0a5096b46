// SPDX-License-Identifier: MIT
// The flat layout of a group of a model's parameters.
#pragma once

#include <vector>

#include "modules/config/parameter_group.h"
#include "sharding/parameters/flat_layout.h"

namespace strata::trainer {

inline sharding::FlatLayout layout_of(const modules::ParameterGroup& group, int64_t ranks) {
  std::vector<sharding::FlatParameter> flat;
  for (const modules::Parameter& parameter : group.parameters) {
    flat.push_back({parameter.name, parameter.shape, parameter.decayed()});
  }
  return sharding::FlatLayout(flat, ranks);
}

}  // namespace strata::trainer
