// SPDX-License-Identifier: MIT
// The FLOPs of a model by the usual convention, for MFU: matrix products and attention, forward and backward, without
// recomputation.
#pragma once

#include <vector>

#include "modules/config/model_config.h"
#include "modules/config/parameter_group.h"

namespace strata::modules {

// For each item (ModelConfig's kItem), with the parameters that the model declares:
//   token  6 x (elements of matrices, the head included, the embeddings not) + 6 x sequence x width x layers, which
//          counts causal attention half
//   image  the same of its tokens, and 12 x tokens^2 x width x layers, because every patch attends to every patch
//   node   6 x elements of matrices; sums over neighbors and the projection of sparse features are not counted
double flops_per_item(const ModelConfig& model, const std::vector<ParameterGroup>& groups);

}  // namespace strata::modules
