// SPDX-License-Identifier: MIT
// Every parameter of a model: name, shape and first values, in the groups that are gathered together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "modules/config/model_config.h"
#include "modules/config/parameter.h"

namespace strata::modules {

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
