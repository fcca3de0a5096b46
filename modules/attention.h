// SPDX-License-Identifier: MIT
// Self-attention with one projection for query, key and value, grouped heads, optional rotary positions and terms of
// scores.
#pragma once

#include <cstdint>
#include <optional>

#include "modules/config/block_config.h"
#include "modules/layer.h"
#include "modules/linear.h"
#include "modules/norm.h"
#include "modules/scope.h"

namespace strata::modules {

class Attention {
 public:
  Attention(const Scope& scope, const BlockConfig& config, int64_t layer);

  Tensor operator()(const Tensor& x, const StepContext& context) const;  // [B, T, D] -> [B, T, D]

 private:
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
