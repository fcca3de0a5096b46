// SPDX-License-Identifier: MIT
#include "modules/config/flops.h"

#include <functional>
#include <variant>

namespace strata::modules {
namespace {

using Groups = std::vector<ParameterGroup>;

// The elements of matrices in the groups that `counts` accepts.
double elements_of_matrices(const Groups& groups, const std::function<bool(const ParameterGroup&)>& counts) {
  int64_t sum = 0;
  for (const ParameterGroup& group : groups) {
    if (!counts(group)) continue;
    for (const Parameter& parameter : group.parameters) {
      if (parameter.shape.size() == 2) sum += parameter.elements();
    }
  }
  return static_cast<double>(sum);
}

bool is_layer(const ParameterGroup& group) { return group.role == Role::layer; }

double product(int64_t a, int64_t b) { return static_cast<double>(a) * static_cast<double>(b); }

double flops(const TransformerConfig& config, const Groups& groups) {
  const double matrices = elements_of_matrices(groups, is_layer) + product(config.vocabulary, config.width);
  return 6 * matrices + 6 * product(config.sequence, config.width) * static_cast<double>(config.layers);
}

double flops(const VisionTransformerConfig& config, const Groups& groups) {
  const double tokens = static_cast<double>(config.tokens());
  const double patch_embedding =
      product(config.patches() * config.channels * config.patch * config.patch, config.width);
  const double matrices =
      tokens * elements_of_matrices(groups, is_layer) + patch_embedding + product(config.classes, config.width);
  return 6 * matrices + 12 * tokens * tokens * product(config.width, config.layers);
}

double flops(const GraphNetworkConfig& config, const Groups& groups) {
  const bool sparse = config.projection == InputProjection::sparse;
  return 6 *
         elements_of_matrices(groups, [=](const ParameterGroup& group) { return group.role != Role::root || !sparse; });
}

}  // namespace

double flops_per_item(const ModelConfig& model, const Groups& groups) {
  return std::visit([&](const auto& config) { return flops(config, groups); }, model.type);
}

}  // namespace strata::modules
