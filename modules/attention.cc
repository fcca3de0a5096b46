// SPDX-License-Identifier: MIT
#include "modules/attention.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "kernels/attention/attention.h"
#include "kernels/rotary/rotary.h"
#include "modules/rotary_tables.h"
#include "modules/selective_recompute.h"

namespace strata::modules {
namespace {

// True if the RMSNorm of each head and the rotary positions are one op. A model without rotary positions, or with a
// norm over all heads together, has NormOfQueriesAndKeys instead.
bool has_head_norms(const BlockConfig& config) {
  return config.query_key_norm == QueryKeyNorm::head && !config.rotary.empty();
}

std::optional<kernels::HeadNorms> head_norms(const Scope& scope, const BlockConfig& config) {
  if (!has_head_norms(config)) return {};
  const auto weight = [&](std::string_view name) {
    return (scope / name).parameter({"weight", {config.head_width}, Initialization::ones});
  };
  return kernels::HeadNorms{weight("query_norm"), weight("key_norm")};
}

std::optional<NormOfQueriesAndKeys> query_key_norm(const Scope& scope, const BlockConfig& config) {
  if (config.query_key_norm == QueryKeyNorm::none || has_head_norms(config)) return {};
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

DecodingStep decoding_step(const BlockConfig& config, std::vector<Tensor> caches, const Tensor& positions) {
  const auto& patterns = config.attention;
  const int64_t alibi_heads = config.score_terms.alibi ? config.heads : 0;
  std::vector<kernels::SlotsOfStep> slots;
  for (size_t layer = 0; layer < caches.size(); ++layer) {
    const auto first_of_pattern = std::find(patterns.begin(), patterns.end(), patterns[layer]) - patterns.begin();
    const auto first = static_cast<size_t>(first_of_pattern);
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
      head_norms_(head_norms(scope, config)),
      query_key_norm_(query_key_norm(scope, config)),
      norm_epsilon_(config.norm_epsilon),
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

Tensor Attention::operator()(const Tensor& x, const StepContext& context) const { return attend(qkv_(x), context); }

kernels::ProductOfNorm Attention::forward_from_unnormed(const kernels::NormedInput& input,
                                                        const StepContext& context) const {
  const auto [qkv, sum] = qkv_.norm_and_multiply(input);
  return {attend(qkv, context), sum};
}

// In training, a batch has rows of one document or of packed ones, or a part of each sequence
// (attend_to_gathered_keys). In generation, a prompt stores its keys and values in the cache and attends as in
// training, and a decoding step of one token attends to the cache.
Tensor Attention::attend(Tensor qkv, const StepContext& context) const {
  const int64_t batch = qkv.size(0), tokens = qkv.size(1);
  if (query_key_norm_) qkv = (*query_key_norm_)(qkv);
  const kernels::AttentionTerms terms = {terms_.alibi, terms_.softcap, sinks_};
  const auto* documents = context.find<Documents>();
  const auto* cached = context.find<DecodingStep>();
  const RotaryTables::Table angles = rotary_ ? context.get<RotaryTables>().of(*rotary_) : RotaryTables::Table{};
  const auto layer = static_cast<size_t>(layer_);
  const bool is_decoding_step = cached != nullptr && tokens == 1;
  // The kernel of a decoding step rotates, unless norms come first.
  const bool is_rotated_later = is_decoding_step && !head_norms_;
  if (rotary_ && !is_rotated_later) {
    // With packed documents or a cache, the tables have a row for each token, so the batch is one long row.
    const bool is_one_row = documents != nullptr || cached != nullptr;
    if (is_one_row) qkv = qkv.view({1, -1, qkv.size(2)});
    qkv = head_norms_
              ? kernels::rms_norm_rotary(qkv, *head_norms_, angles.cosine, angles.sine, heads_, key_value_heads_,
                                         norm_epsilon_, rotary_level_)
              : kernels::rotary(std::move(qkv), angles.cosine, angles.sine, heads_, key_value_heads_, rotary_level_);
    if (is_one_row) qkv = qkv.view({batch, -1, qkv.size(2)});
  }
  if (is_decoding_step) {
    const kernels::TokenAngles later =
        is_rotated_later ? kernels::TokenAngles{angles.cosine, angles.sine, rotary_level_} : kernels::TokenAngles{};
    return output_(kernels::cached_attention(qkv, later, cached->caches.at(layer), cached->slots.at(layer), terms));
  }
  if (cached != nullptr) kernels::store_keys_and_values(cached->caches.at(layer), qkv, cached->slots.at(layer).slot);
  const kernels::AttentionMask mask = documents == nullptr
                                          ? kernels::AttentionMask{pattern_}
                                          : kernels::AttentionMask{within_documents_, documents->offsets};
  if (const auto* part = context.find<SequencePart>()) return output_(attend_to_gathered_keys(qkv, *part, mask, terms));
  return output_(kernels::attention(qkv, heads_, key_value_heads_, mask, terms, attention_level_));
}

// Each chunk of queries attends to the keys of all ranks. These are gathered again for the backward, so that a layer
// keeps only the keys of its own rank.
Tensor Attention::attend_to_gathered_keys(const Tensor& qkv, const SequencePart& part,
                                          const kernels::AttentionMask& mask,
                                          const kernels::AttentionTerms& terms) const {
  const int64_t head_width = qkv.size(2) / (heads_ + 2 * key_value_heads_);
  const std::vector<Tensor> parts = qkv.split_with_sizes({heads_ * head_width, 2 * key_value_heads_ * head_width}, 2);
  const std::vector<Tensor> queries = parts[0].split(part.chunk(), 1);
  const auto gather = [part](const Tensor& own) { return part.gather(own); };
  return use_recomputed({gather(parts[1]), parts[1], gather}, [&](const Tensor& key_value) {
    std::vector<Tensor> results;
    for (size_t i = 0; i < queries.size(); ++i) {
      results.push_back(kernels::attention_of_part(queries[i], {key_value, part.starts()[i]}, heads_, key_value_heads_,
                                                   mask, terms, attention_level_));
    }
    return at::cat(results, 1);
  });
}

}  // namespace strata::modules
