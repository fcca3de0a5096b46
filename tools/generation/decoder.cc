// SPDX-License-Identifier: MIT
#include "tools/generation/decoder.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>

#include "modules/config/block_config.h"
#include "modules/model_sources.h"
#include "modules/scope.h"

namespace strata::generation {
namespace {

modules::Transformer model_of(const modules::TransformerConfig& config, const Decoder::Weights& weights,
                              kernels::Level level) {
  const modules::KernelsConfig kernels{.default_level = level};
  modules::BindingSource source(weights);
  return modules::Transformer(config, modules::Scope(source, kernels));
}

}  // namespace

Decoder::Decoder(const modules::TransformerConfig& config, const Weights& weights, kernels::Level level, bool captures)
    : config_(config),
      model_(model_of(config, weights, level)),
      options_(model_.head_weight().options()),
      captures_(captures && options_.device().is_cuda()) {}

Tensor Decoder::start(const Prompts& prompts, int64_t positions) {
  positions_ = positions;
  graph_ = {};
  cache_ = modules::key_value_cache(modules::block_config(config_), static_cast<int64_t>(prompts.size()), positions,
                                    options_);
  if (config_.has_rotary_positions()) {
    const modules::RotaryTables tables = modules::rotary_tables(config_, positions);
    rotary_ = {tables.cosine.to(options_.device()), tables.sine.to(options_.device())};
  }
  tokens_ = at::zeros_like(cache_.positions);
  std::vector<Tensor> rows;
  for (const std::vector<int64_t>& prompt : prompts) {
    rows.push_back(restart(static_cast<int64_t>(rows.size()), prompt));
  }
  return at::cat(rows);
}

Tensor Decoder::restart(int64_t row, const std::vector<int64_t>& tokens) {
  const auto length = static_cast<int64_t>(tokens.size());
  cache_.positions.select(0, row).fill_(length);
  return logits(at::tensor(tokens, at::kLong).to(options_.device()).unsqueeze(0), cache_.for_prompt(row, length));
}

Tensor Decoder::next(const Tensor& tokens) {
  tokens_.copy_(tokens.unsqueeze(1));
  return captures_ ? graph_.run([this] { return step(); }) : step();
}

Tensor Decoder::step() {
  cache_.positions.clamp_max_(positions_ - 1);
  const Tensor result = logits(tokens_, cache_);
  cache_.positions.add_(1);
  return result;
}

int64_t Decoder::cache_bytes() const {
  int64_t bytes = 0;
  for (const kernels::CachedKeys& layer : cache_.layers) bytes += 2 * static_cast<int64_t>(layer.key.nbytes());
  return bytes;
}

// [B, T] -> [B, V], of the last tokens
Tensor Decoder::logits(const Tensor& tokens, const modules::KeyValueCache& cache) const {
  modules::StepContext context;
  context.put(std::make_shared<const modules::KeyValueCache>(cache));
  if (rotary_.cosine.defined()) {
    context.put(std::make_shared<const modules::RotaryTables>(modules::rows_of(rotary_, cache.positions)));
  }
  return model_.logits(model_(tokens, context).select(1, tokens.size(1) - 1));
}

}  // namespace strata::generation
