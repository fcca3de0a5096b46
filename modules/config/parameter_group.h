// SPDX-License-Identifier: MIT
// Parameters that are gathered together, in the order of their declaration.
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

// Returns the elements of all matrices in the groups of a role.
inline double elements_of_matrices(const std::vector<ParameterGroup>& groups, Role role) {
  int64_t sum = 0;
  for (const ParameterGroup& group : groups) {
    if (group.role != role) continue;
    for (const Parameter& parameter : group.parameters) sum += parameter.shape.size() == 2 ? parameter.elements() : 0;
  }
  return static_cast<double>(sum);
}

}  // namespace strata::modules
