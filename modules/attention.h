// SPDX-License-Identifier: MIT
// Self-attention with one projection for query, key and value, grouped heads, optional rotary positions and terms of
// scores.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/attention/cached/cached_attention.h"
#include "kernels/rms_norm_rotary/rms_norm_rotary.h"
#include "modules/config/block_config.h"
#include "modules/layer.h"
#include "modules/linear.h"
#include "modules/norm.h"
#include "modules/scope.h"
#include "modules/sequences.h"

namespace strata::modules {

// The caches of keys and values for the tokens of one step of generation. With it in the context of a step, a model
// computes new tokens only: a whole prompt, from position 0 on and alone in its batch, or one token in each row.
// RotaryTables have a row for each token then, as with packed documents.
struct DecodingStep {
  std::vector<Tensor> caches;               // cache of each layer: kernels/attention/cached/cached_attention.h
  Tensor positions;                         // int64 [B, T]
  std::vector<kernels::SlotsOfStep> slots;  // slots of each layer
};

// Allocates the caches of all layers, for rows of `positions`. A layer with a window keeps only its reach.
std::vector<Tensor> key_value_caches(const BlockConfig& config, int64_t batch, int64_t positions,
                                     const at::TensorOptions& options);

DecodingStep decoding_step(const BlockConfig& config, std::vector<Tensor> caches, const Tensor& positions);

class Attention {
 public:
  Attention(const Scope& scope, const BlockConfig& config, int64_t layer);

  Tensor operator()(const Tensor& x, const StepContext& context) const;  // [B, T, D] -> [B, T, D]

  // A step of generation: the first product normalizes its input, if can_fuse_norm(x). `sum` is what it normalizes.
  bool can_fuse_norm(const Tensor& x) const { return qkv_.can_fuse_norm(x); }
  kernels::ProductOfNorm forward_from_unnormed(const kernels::NormedInput& input, const StepContext& context) const;

 private:
  Tensor attend(Tensor qkv, const StepContext& context) const;  // [B, T, (H + 2K) * D of a head] -> [B, T, D]
  Tensor attend_to_gathered_keys(const Tensor& qkv, const SequencePart& part, const kernels::AttentionMask& mask,
                                 const kernels::AttentionTerms& terms) const;

  Linear qkv_, output_;  // qkv: H query heads, then K key heads, then K value heads
  std::optional<kernels::HeadNorms> head_norms_;
  std::optional<NormOfQueriesAndKeys> query_key_norm_;  // all other norms of queries and keys
  double norm_epsilon_;
  int64_t layer_, heads_, key_value_heads_;
  std::optional<int64_t> rotary_;                // number of the tables
  kernels::Pattern pattern_, within_documents_;  // patterns for rows that are one document, and for packed documents
  kernels::ScoreTerms terms_;
  Tensor sinks_;  // [heads]; undefined: none
  kernels::Level rotary_level_, attention_level_;
};

}  // namespace strata::modules
