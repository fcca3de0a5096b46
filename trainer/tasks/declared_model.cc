// SPDX-License-Identifier: MIT
#include "trainer/tasks/declared_model.h"

#include <variant>

#include "modules/graph/graph_network.h"
#include "modules/image/image_model.h"
#include "modules/model_sources.h"
#include "modules/transformer.h"
#include "trainer/config/op_placement.h"

namespace strata::trainer {
namespace {

using modules::Scope;
using modules::WrapLayer;

// The models are constructed as the tasks construct them.
void construct(const modules::TransformerConfig& model, const modules::OpPlacement& placement, const Scope& scope,
               const WrapLayer& wrap) {
  modules::Transformer(model, scope, placement.has_fused_head).wrap_layers(wrap);
}

template <modules::TakesImages Model>
void construct(const Model& model, const modules::OpPlacement&, const Scope& scope, const WrapLayer& wrap) {
  modules::make_image_model({.type = model}, scope)->wrap_layers(wrap);
}

void construct(const modules::GraphNetworkConfig& model, const modules::OpPlacement& placement, const Scope& scope,
               const WrapLayer& wrap) {
  modules::GraphNetwork(model, scope, placement.features_are_aggregated_once).wrap_layers(wrap);
}

}  // namespace

void construct_model(const TrainerConfig& config, const Scope& scope, const WrapLayer& wrap) {
  const modules::OpPlacement placement = op_placement(config.model, config.data, config.kernels);
  std::visit([&](const auto& model) { construct(model, placement, scope, wrap); }, config.model.type);
}

DeclaredModel declared_model(const TrainerConfig& config) {
  const modules::KernelsConfig any_levels;  // parameters and ops are the same at all levels
  modules::DeclaringSource source;
  const Scope scope(source, any_levels, &config.precision.linear, &config.sparsity);
  construct_model(config, scope, [](int64_t, modules::Layer layer) { return layer; });
  const modules::OpPlacement placement = op_placement(config.model, config.data, config.kernels);
  DeclaredModel declared{source.groups(), {outside_of_modules(placement, config.optimizer, config.run.ranks)}};
  declared.modules.insert(declared.modules.end(), source.modules().begin(), source.modules().end());
  return declared;
}

std::vector<modules::ParameterGroup> declared_groups(const modules::ModelConfig& model) {
  TrainerConfig config;
  config.model = model;
  return declared_model(config).groups;
}

}  // namespace strata::trainer
