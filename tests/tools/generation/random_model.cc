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

using modules::TransformerConfig;

TransformerConfig changed(const std::function<void(TransformerConfig&)>& change) {
  TransformerConfig config = {
      .layers = 3, .width = 24, .heads = 4, .feed_forward = 20, .sequence = 80, .vocabulary = 31};
  change(config);
  return config;
}

std::vector<std::pair<std::string, TransformerConfig>> test_models() {
  return {
      {"llama", changed([](TransformerConfig&) {})},
      {"gpt2", changed([](TransformerConfig& config) { config.family = modules::Family::gpt2; })},
      {"grouped heads of their own width", changed([](TransformerConfig& config) {
         config.key_value_heads = 2;
         config.head_width = 10;
         config.query_key_norm = modules::QueryKeyNorm::head;
       })},
      {"windows and bases by layer", changed([](TransformerConfig& config) {
         config.layer_overrides = {{.only = {0, 1}, .attention = "causal & window(5)", .rotary_base = 100.0}};
       })},
      {"a window of one key", changed([](TransformerConfig& config) { config.attention = "causal & window(1)"; })},
      {"alibi", changed([](TransformerConfig& config) {
         config.alibi = true;
         config.heads = 6;
         config.attention = "causal & window(7)";
       })},
      {"sinks and a softcap", changed([](TransformerConfig& config) {
         config.sinks = true;
         config.softcap = 1.5;
         config.key_value_heads = 2;
         config.attention = "causal & window(6)";
       })},
      {"capped logits", changed([](TransformerConfig& config) { config.logit_softcap = 1.5; })},
      {"words that are no window", changed([](TransformerConfig& config) {
         config.attention = "causal & (window(4) | global(2) | dilated(5, 3))";
         config.layer_overrides = {{.only = {1, 1}, .attention = "causal & (window(3) | blocks(0.4, 3))"}};
       })},
      {"a prefix that sees itself",
       changed([](TransformerConfig& config) { config.attention = "causal | prefix(3)"; })},
  };
}

RandomModel::RandomModel(const TransformerConfig& config, at::ScalarType type,
                         const modules::LinearFormatsConfig& formats)
    : config_(config), formats_(formats) {
  at::manual_seed(7);
  for (const auto& group : trainer::declared_groups({.type = config})) {
    for (const auto& parameter : group.parameters) {
      weights_[parameter.name] = at::randn(parameter.shape, at::kFloat).mul_(0.4).to(type);
    }
  }
}

Decoder RandomModel::decoder(at::Device device, bool captures,
                             const std::optional<modules::KernelsConfig>& kernels) const {
  const auto weights = [&](const std::string& name) { return weights_.at(name).to(device); };
  return Decoder(config_, formats_, weights, device, captures, kernels);
}

Tensor RandomModel::logits_after(const std::vector<int64_t>& tokens) const {
  const modules::KernelsConfig kernels{.default_level = kernels::Level::aten};
  modules::BindingSource source([this](const std::string& name) { return weights_.at(name); });
  const modules::Transformer model(config_, modules::Scope(source, kernels, &formats_));
  modules::StepContext context;
  if (config_.has_rotary_positions()) {
    const auto length = static_cast<int64_t>(tokens.size());
    context.put(std::make_shared<const modules::RotaryTables>(modules::rotary_tables(config_, length)));
  }
  return model.logits(model(at::tensor(tokens, at::kLong).unsqueeze(0), context).select(1, -1)).squeeze(0);
}

}  // namespace strata::generation
