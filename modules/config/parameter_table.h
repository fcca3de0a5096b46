// SPDX-License-Identifier: MIT
// All parameters of a model: name, shape and initialization, in the groups that are gathered together.
#pragma once

#include <vector>

#include "modules/config/model_config.h"
#include "modules/config/parameter_group.h"

namespace strata::modules {

// The groups are: root (embeddings and the last norm), one for each block, and an untied head.
std::vector<ParameterGroup> parameter_table(const TransformerConfig& config);
// The head of a vision transformer is a group of its own. Positions have no weight decay, as in timm.
std::vector<ParameterGroup> parameter_table(const VisionTransformerConfig& config);

// The groups are: the projection of the features, if there is one; one for each layer; the gate of a pooling with the
// head after it. Initialization is that of PyG.
std::vector<ParameterGroup> parameter_table(const GraphNetworkConfig& config);

}  // namespace strata::modules
