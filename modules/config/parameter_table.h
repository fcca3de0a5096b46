// SPDX-License-Identifier: MIT
// All parameters of a model: name, shape and initialization, in the groups that are gathered together.
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

// The groups are: root (embeddings and the last norm), one for each block, and an untied head.
std::vector<ParameterGroup> parameter_table(const TransformerConfig& config);
// The head of a vision transformer is a group of its own. Positions have no weight decay, as in timm.
std::vector<ParameterGroup> parameter_table(const VisionTransformerConfig& config);

// The groups are: the projection of the features, if there is one; one for each layer; the gate of a pooling with the
// head after it. Initialization is that of PyG.
std::vector<ParameterGroup> parameter_table(const GraphNetworkConfig& config);

int64_t parameter_count(const std::vector<ParameterGroup>& table);

// FLOPs per token, forward and backward, without recomputation: 6 x (parameters in matrix products) + 6 x sequence x
// width x layers. The head counts as a matrix product, the embedding does not, and causal attention counts half.
double flops_per_item(const TransformerConfig& config);
// FLOPs per image, counted in the same way. Every patch attends to every patch: 12 x tokens^2 x width x layers.
double flops_per_item(const VisionTransformerConfig& config);
// FLOPs per computed node. Only dense matrices count. Sums over neighbors do not, and with a sparse projection neither
// do the projection, the pooling's gate and the head.
double flops_per_item(const GraphNetworkConfig& config);

}  // namespace strata::modules
