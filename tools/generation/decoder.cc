// SPDX-License-Identifier: MIT
#include "tools/generation/decoder.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <optional>
#include <set>
#include <string_view>

#include "kernels/level_matrix.h"
#include "kernels/linear/few_rows_cuda.h"
#include "kernels/runtime/gpus.h"
#include "kernels/runtime/level.h"
#include "modules/config/kernel_selection.h"
#include "modules/config/kernels_config.h"
#include "modules/model_sources.h"
#include "modules/scope.h"

namespace strata::generation {
namespace {

// Level aten exists on every device and for every length. On a GPU it launches 8 kernels for rotary, and 2 for a norm
// of a sum or a gated activation. Level cuda launches one, and a step of generation costs as much as its launches.
// `for_few_rows`: level cuda has a kernel for the products of steps of up to 8 rows, on Hopper. It times those of more
// rows first, for each length of a prompt.
modules::KernelsConfig kernels_on(at::Device device, bool for_few_rows) {
  modules::KernelsConfig kernels{.default_level = kernels::Level::aten};
  if (!device.is_cuda()) return kernels;
  const kernels::Target target = kernels::target_of(device);
  std::set<std::string_view> ops = {"embedding", "rms_norm", "layer_norm", "rotary", "activation"};
  if (for_few_rows && (!target.gpu || kernels::kHopper.has(target.gpu->capability))) ops.insert("linear");
  kernels.levels.each([&](std::string_view op, std::optional<kernels::Level>& level) {
    if (ops.contains(op) && kernels::has_level(op, kernels::Level::cuda, target)) level = kernels::Level::cuda;
  });
  return kernels;
}

modules::Transformer model_of(const modules::TransformerConfig& config, const modules::LinearFormatsConfig& formats,
                              const Decoder::Weights& weights, const modules::KernelsConfig& kernels) {
  modules::BindingSource source(weights);
  return modules::Transformer(config, modules::Scope(source, kernels, &formats));
}

}  // namespace

Decoder::Decoder(const modules::TransformerConfig& config, const modules::LinearFormatsConfig& formats,
                 const Weights& weights, at::Device device, bool captures,
                 const std::optional<modules::KernelsConfig>& kernels)
    : config_(config),
      block_(modules::block_config(config)),
      model_(model_of(config, formats, weights, kernels.value_or(kernels_on(device, /*for_few_rows=*/false)))),
      few_rows_model_(model_of(config, formats, weights, kernels.value_or(kernels_on(device, /*for_few_rows=*/true)))),
      options_(model_.head_weight().options()),
      captures_(captures && device.is_cuda() && !(kernels && modules::compiles_in_first_calls(*kernels))) {}

Tensor Decoder::start(const Prompts& prompts, int64_t positions) {
  const auto batch = static_cast<int64_t>(prompts.size());
  most_positions_ = positions;
  graph_ = {};
  caches_ = {};  // frees their memory first
  caches_ = modules::key_value_caches(block_, batch, positions, options_);
  const bool has_tables = rotary_.defined() && rotary_.size(2) >= positions;
  if (config_.has_rotary_positions() && !has_tables) {
    const modules::RotaryTables tables = modules::rotary_tables(config_, positions);
    rotary_ = at::stack({tables.cosine, tables.sine}).to(options_.device());
  }
  positions_ = at::zeros({batch, 1}, options_.dtype(at::kLong));
  tokens_ = at::zeros_like(positions_);
  std::vector<Tensor> rows;
  for (const std::vector<int64_t>& prompt : prompts) {
    rows.push_back(restart(static_cast<int64_t>(rows.size()), prompt));
  }
  return at::cat(rows);
}

Tensor Decoder::restart(int64_t row, const std::vector<int64_t>& tokens) {
  const auto length = static_cast<int64_t>(tokens.size());
  positions_.select(0, row).fill_(length);
  std::vector<Tensor> caches;
  for (const Tensor& cache : caches_) caches.push_back(cache.narrow(1, row, 1));
  return logits(at::tensor(tokens, at::kLong).to(options_.device()).unsqueeze(0), caches,
                at::arange(length, positions_.options()).unsqueeze(0));
}

Tensor Decoder::next(const Tensor& tokens) {
  at::clamp_min_out(tokens_, tokens.unsqueeze(1), 0);
  return captures_ ? graph_.run([this] { return step(); }) : step();
}

Tensor Decoder::step() {
  positions_.clamp_max_(most_positions_ - 1);
  const Tensor result = logits(tokens_, caches_, positions_);
  positions_.add_(1);
  return result;
}

int64_t Decoder::cache_bytes() const {
  int64_t bytes = 0;
  for (const Tensor& cache : caches_) bytes += static_cast<int64_t>(cache.nbytes());
  return bytes;
}

// [B, T] -> [B, V], of the last tokens
Tensor Decoder::logits(const Tensor& tokens, const std::vector<Tensor>& caches, const Tensor& positions) const {
  modules::StepContext context;
  context.put(std::make_shared<const modules::DecodingStep>(modules::decoding_step(block_, caches, positions)));
  if (rotary_.defined()) {
    const Tensor rows = rotary_.index_select(2, positions.flatten());
    context.put(std::make_shared<const modules::RotaryTables>(modules::RotaryTables{rows[0], rows[1]}));
  }
  const modules::Transformer& model = tokens.numel() <= kernels::kFewRows ? few_rows_model_ : model_;
  return model.logits(model(tokens, context).select(1, tokens.size(1) - 1));
}

}  // namespace strata::generation
