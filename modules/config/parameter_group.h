// SPDX-License-Identifier: MIT
// The parameters of a model: their names, shapes and initialization, in groups that are gathered together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace strata::modules {

// normal: a normal distribution with deviation 0.02. residual: deviation 0.02 / sqrt(2 x layers), for projections that
// end a residual branch. scaled_by_inputs: deviation 1 / sqrt(3 x inputs), as PyTorch's linear layers start; it is 0.02
// at a width of 768. constant: Parameter::constant. uniform: between -Parameter::constant and Parameter::constant.
enum class Initialization { normal, residual, scaled_by_inputs, ones, zeros, constant, uniform };

struct Parameter {
  std::string name;  // blocks.3.norm1.weight
  std::vector<int64_t> shape;
  Initialization initialization = Initialization::normal;
  double constant = 0;
  bool never_decayed = false;
  bool is_linear_weight = false;  // the weight of a modules::Linear, which only its products read

  int64_t elements() const {
    int64_t product = 1;
    for (const int64_t size : shape) product *= size;
    return product;
  }
  // Weight decay applies to matrices and embeddings.
  bool decayed() const { return shape.size() >= 2 && !never_decayed; }
};

// The time in which the parameters of a group are gathered. root: the whole step. layer: only while the layer computes.
// head: from the end of the layers on; its gradient is complete when the backward returns to the layers.
enum class Role { root, layer, head };

// Parameters that are gathered together, in the order of their declaration.
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
