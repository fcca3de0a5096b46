// SPDX-License-Identifier: MIT
// A parameter of a model: its name, shape and initialization. `Role` is the time in which a group must be gathered.
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

  int64_t elements() const;
  // Weight decay applies to matrices and embeddings.
  bool decayed() const { return shape.size() >= 2 && !never_decayed; }
};

// The time in which the parameters of a group are gathered. root: the whole step. layer: only while the layer computes.
// head: from the end of the layers on; its gradient is complete when the backward returns to the layers.
enum class Role { root, layer, head };

}  // namespace strata::modules
