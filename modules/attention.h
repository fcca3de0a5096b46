// SPDX-License-Identifier: MIT
// Self-attention with one projection for query, key and value, grouped heads, optional rotary positions and terms of
// scores.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/attention/cached_attention.h"
#include "modules/config/block_config.h"
#include "modules/layer.h"
#include "modules/linear.h"
#include "modules/norm.h"
#include "modules/scope.h"
#include "modules/sequences.h"

namespace strata::modules {

// The keys and values of the tokens so far, for generation. With it in the context of a step, a model computes new
// tokens only: a whole prompt, from position 0 on and alone in its batch, or one token in each row. RotaryTables have a
// row for each token then, as with packed documents.
struct KeyValueCache {
  std::vector<kernels::CachedKeys> layers = {};
  Tensor positions = {};  // int64 [B, T]: of the tokens of this step

  // Returns the cache of one row for a prompt of `length` tokens. It shares the memory of this one.
  KeyValueCache for_prompt(int64_t row, int64_t length) const;
};

// Allocates a cache for rows of so many positions, whose next position is 0. A layer with a window keeps only its
// reach.
KeyValueCache key_value_cache(const BlockConfig& config, int64_t batch, int64_t positions,
                              const at::TensorOptions& options);

class Attention {
 public:
  Attention(const Scope& scope, const BlockConfig& config, int64_t layer);

  Tensor operator()(const Tensor& x, const StepContext& context) const;  // [B, T, D] -> [B, T, D]

 private:
  Tensor of_part(const Tensor& qkv, const SequencePart& part, const kernels::AttentionMask& mask,
                 const kernels::AttentionTerms& terms) const;

  Linear qkv_, output_;  // qkv: H query heads, then K key heads, then K value heads
  std::optional<NormOfQueriesAndKeys> query_key_norm_;
  int64_t layer_, heads_, key_value_heads_;
  std::optional<int64_t> rotary_;  // number of the tables
  kernels::Pattern pattern_;
  kernels::ScoreTerms terms_;
  Tensor sinks_;  // [heads]; undefined: none
  kernels::Level rotary_level_, attention_level_;
};

}  // namespace strata::modules
