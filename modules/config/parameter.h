// SPDX-License-Identifier: MIT
// A parameter of a model: its name, shape and first values, and when the group that it belongs to is needed in full.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace strata::modules {

// normal: deviation 0.02. residual: 0.02 / sqrt(2 x layers), for projections that end a residual branch.
// by_inputs: 1 / sqrt(3 x inputs), as PyTorch's linear layers start, and 0.02 at a width of 768. constant:
// Parameter::constant. uniform: between -Parameter::constant and Parameter::constant.
enum class Initialization { normal, residual, by_inputs, ones, zeros, constant, uniform };

struct Parameter {
  std::string name;  // blocks.3.norm1.weight
  std::vector<int64_t> shape;
  Initialization initialization = Initialization::normal;
  double constant = 0;
  bool never_decayed = false;

  int64_t elements() const;
  // Weight decay is for matrices and embeddings.
  bool decayed() const { return shape.size() >= 2 && !never_decayed; }
};

// When the parameters of a group are needed in full. root: from the beginning of a step to its end. layer: only while
// the layer computes. head: from the layers on, and its gradient is complete when the backward comes back to the
// layers.
enum class Role { root, layer, head };

}  // namespace strata::modules
