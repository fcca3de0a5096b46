// SPDX-License-Identifier: MIT
#include "modules/config/graph_network_config.h"

#include <string>

#include "modules/config/divisors.h"

namespace strata::modules {

void check(const GraphNetworkConfig& model, configs::Checks& checks) {
  if (!checks.can_check({"convolution"})) return;
  const bool attends = model.convolution == GraphConvolutionKind::gat;
  if (checks.can_check({"heads"}) && !attends && model.heads != 1) {
    checks.fail("heads", "expected 1, because only convolution: gat has heads, got " + std::to_string(model.heads));
  }
  if (checks.can_check({"heads", "width"}) && attends && model.width % model.heads != 0) {
    checks.fail("heads", not_divided("width", model.width, "heads", model.heads));
  }
  if (checks.can_check({"reduction"}) && model.convolution != GraphConvolutionKind::sage &&
      model.reduction != SageReduction::mean) {
    checks.fail("reduction", "expected none, because only convolution: sage has a choice, got max");
  }
}

kernels::Activation GraphNetworkConfig::activation_kind() const {
  using kernels::Activation;
  switch (activation) {
    case GraphActivation::relu:
      return Activation::relu;
    case GraphActivation::gelu:
      return Activation::gelu;
    case GraphActivation::gelu_tanh:
      return Activation::gelu_tanh;
    case GraphActivation::silu:
      return Activation::silu;
  }
  return Activation::none;  // unreachable: the switch is complete
}

double flops_per_item(const GraphNetworkConfig& model, const std::vector<ParameterGroup>& groups) {
  const bool sparse = model.projection == InputProjection::sparse;
  return 6 * (elements_of_matrices(groups, Role::layer) + elements_of_matrices(groups, Role::head) +
              (sparse ? 0 : elements_of_matrices(groups, Role::root)));
}

}  // namespace strata::modules
