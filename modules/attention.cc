// SPDX-License-Identifier: MIT
#include "modules/attention.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "kernels/attention/attention.h"
#include "kernels/rotary/rotary.h"
#include "modules/documents.h"
#include "modules/rotary_tables.h"

namespace strata::modules {
namespace {

std::optional<NormOfQueriesAndKeys> query_key_norm(const Scope& scope, const BlockConfig& config) {
  if (config.query_key_norm == QueryKeyNorm::none) return {};
  return NormOfQueriesAndKeys(scope, config);
}

Tensor sinks(const Scope& scope, const BlockConfig& config) {
  if (!config.score_terms.sinks) return {};
  return scope.parameter({"sinks", {config.heads}, Initialization::zeros});
}

}  // namespace

// Zeros, because a share of 0 does not hide a value that is not finite.
std::vector<Tensor> key_value_caches(const BlockConfig& config, int64_t batch, int64_t positions,
                                     const at::TensorOptions& options) {
  std::vector<Tensor> caches;
  for (const kernels::Pattern& pattern : config.attention) {
    const int64_t slots = kernels::slots_of(pattern, positions);
    caches.push_back(at::zeros({2, batch, config.key_value_heads, slots, config.head_width}, options));
  }
  return caches;
}

CachedStep cached_step(const BlockConfig& config, std::vector<Tensor> caches, const Tensor& positions) {
  const auto& patterns = config.attention;
  const int64_t alibi_heads = config.score_terms.alibi ? config.heads : 0;
  std::vector<kernels::SlotsOfStep> slots;
  for (size_t layer = 0; layer < caches.size(); ++layer) {
    const auto same = std::find(patterns.begin(), patterns.end(), patterns[layer]) - patterns.begin();
    const auto first = static_cast<size_t>(same);
    slots.push_back(first < layer ? slots[first]
                                  : kernels::slots_of_step(positions, caches[layer], patterns[layer], alibi_heads));
  }
  return {std::move(caches), positions, std::move(slots)};
}

Attention::Attention(const Scope& scope, const BlockConfig& config, int64_t layer)
    : qkv_(scope / "qkv", {.outputs = (config.heads + 2 * config.key_value_heads) * config.head_width,
                           .inputs = config.width,
                           .has_bias = config.qkv_biases,
                           .initialization = config.inner_initialization}),
      output_(scope / "output", {.outputs = config.width,
                                 .inputs = config.heads * config.head_width,
                                 .has_bias = config.biases,
                                 .initialization = config.last_initialization}),
      query_key_norm_(query_key_norm(scope, config)),
      layer_(layer),
      heads_(config.heads),
      key_value_heads_(config.key_value_heads),
      rotary_(config.rotary.empty() ? std::nullopt : std::optional(config.rotary.at(static_cast<size_t>(layer)))),
      pattern_(config.attention.at(static_cast<size_t>(layer))),
      within_documents_(kernels::within_documents(pattern_)),
      terms_(config.score_terms),
      sinks_(sinks(scope, config)),
      rotary_level_(rotary_ ? scope.level("rotary") : kernels::Level::aten),
      attention_level_(scope.level("attention")) {}

Tensor Attention::operator()(const Tensor& x, const StepContext& context) const {
  return of_projection(qkv_(x), context);
}

kernels::ProductOfNorm Attention::of_norm(const kernels::NormedInput& input, const StepContext& context) const {
  const auto [qkv, sum] = qkv_.of_norm(input);
  return {of_projection(qkv, context), sum};
}

Tensor Attention::of_projection(Tensor qkv, const StepContext& context) const {
  const int64_t batch = qkv.size(0), tokens = qkv.size(1);
  if (query_key_norm_) qkv = (*query_key_norm_)(qkv);
  const kernels::AttentionTerms terms = {terms_.alibi, terms_.softcap, sinks_};
  const auto* documents = context.find<Documents>();
  const auto* cached = context.find<CachedStep>();
  const RotaryTables::Table angles = rotary_ ? context.get<RotaryTables>().of(*rotary_) : RotaryTables::Table{};
  const auto layer = static_cast<size_t>(layer_);
  if (cached != nullptr && tokens == 1) {
    return output_(kernels::cached_attention(qkv, {angles.cosine, angles.sine, rotary_level_}, cached->caches.at(layer),
                                             cached->slots.at(layer), terms));
  }
  if (rotary_) {
    // With packed documents or a cache, the tables have a row for each token, so the batch is one long row.
    const bool is_one_row = documents != nullptr || cached != nullptr;
    if (is_one_row) qkv = qkv.view({1, -1, qkv.size(2)});
    qkv = kernels::rotary(std::move(qkv), angles.cosine, angles.sine, heads_, key_value_heads_, rotary_level_);
    if (is_one_row) qkv = qkv.view({batch, -1, qkv.size(2)});
  }
  if (cached != nullptr) kernels::store_keys_and_values(cached->caches.at(layer), qkv, cached->slots.at(layer).slot);
  const kernels::AttentionMask mask = documents == nullptr
                                          ? kernels::AttentionMask{pattern_}
                                          : kernels::AttentionMask{within_documents_, documents->offsets};
  return output_(kernels::attention(qkv, heads_, key_value_heads_, mask, terms, attention_level_));
}

}  // namespace strata::modules
