// SPDX-License-Identifier: MIT
// Every parameter of a model: name, shape and first values, in the groups that are gathered together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "modules/config/model_config.h"

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

struct ParameterGroup {
  std::string name;  // root, blocks.3, head
  Role role = Role::layer;
  std::vector<Parameter> parameters;

  int64_t elements() const;
};

// The root group (embeddings and the last norm) first, then a group for each block, then an untied head.
std::vector<ParameterGroup> parameter_table(const TransformerConfig& config);
// The head of a vision transformer is a group of its own. Positions are not decayed, as in timm.
std::vector<ParameterGroup> parameter_table(const VisionTransformerConfig& config);

// The projection of the features, if there is one, then a group for each layer, then the gate of a pooling and the head
// behind it. First values are those of PyG.
std::vector<ParameterGroup> parameter_table(const GraphNetworkConfig& config);

int64_t parameter_count(const std::vector<ParameterGroup>& table);

// For each token, forward and backward, without recomputation, causal attention counted half: 6 x (parameters that are
// multiplied as matrices, the head included, the embedding not) + 6 x sequence x width x layers.
double flops_per_item(const TransformerConfig& config);
// For each image, in the same way; every patch sees every patch: 12 x tokens^2 x width x layers.
double flops_per_item(const VisionTransformerConfig& config);
// For each node that is computed, dense matrices only: sums over neighbors and sparse features are left out.
double flops_per_item(const GraphNetworkConfig& config);

}  // namespace strata::modules
