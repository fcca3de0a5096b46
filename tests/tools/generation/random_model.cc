// SPDX-License-Identifier: MIT
#include "tests/tools/generation/random_model.h"

#include <ATen/Context.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>

#include <memory>

#include "modules/model_sources.h"
#include "modules/rotary_tables.h"
#include "modules/scope.h"
#include "trainer/tasks/declared_model.h"

namespace strata::generation {

RandomModel::RandomModel(const modules::TransformerConfig& config) : config_(config) {
  at::manual_seed(7);
  for (const auto& group : trainer::declared_groups({.type = config})) {
    for (const auto& parameter : group.parameters) {
      weights_[parameter.name] = at::randn(parameter.shape, at::kFloat).mul_(0.4);
    }
  }
}

Decoder RandomModel::decoder() const {
  return Decoder(
      config_, [this](const std::string& name) { return weights_.at(name); }, kernels::Level::aten);
}

Tensor RandomModel::logits_after(const std::vector<int64_t>& tokens) const {
  const modules::KernelsConfig kernels{.default_level = kernels::Level::aten};
  modules::BindingSource source([this](const std::string& name) { return weights_.at(name); });
  const modules::Transformer model(config_, modules::Scope(source, kernels));
  modules::StepContext context;
  if (config_.has_rotary_positions()) {
    const auto length = static_cast<int64_t>(tokens.size());
    context.put(std::make_shared<const modules::RotaryTables>(modules::rotary_tables(config_, length)));
  }
  return model.logits(model(at::tensor(tokens, at::kLong).unsqueeze(0), context).select(1, -1)).squeeze(0);
}

}  // namespace strata::generation
