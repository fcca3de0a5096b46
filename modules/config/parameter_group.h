// SPDX-License-Identifier: MIT
// Parameters that are gathered together, in the order of their flat buffer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "modules/config/parameter.h"

namespace strata::modules {

struct ParameterGroup {
  std::string name;  // root, blocks.3, head
  Role role = Role::layer;
  std::vector<Parameter> parameters;

  int64_t elements() const {
    int64_t sum = 0;
    for (const Parameter& parameter : parameters) sum += parameter.elements();
    return sum;
  }
};

inline int64_t parameter_count(const std::vector<ParameterGroup>& groups) {
  int64_t sum = 0;
  for (const ParameterGroup& group : groups) sum += group.elements();
  return sum;
}

}  // namespace strata::modules
