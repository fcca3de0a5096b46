// SPDX-License-Identifier: MIT
// What the attention of a model needs from a level: its heads, its patterns and the terms of its scores.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/attention/pattern/pattern.h"
#include "kernels/attention/score_terms.h"
#include "modules/config/rotary_config.h"

namespace strata::modules {

struct LayersOfPattern {
  kernels::Pattern pattern;
  std::vector<int64_t> layers;  // ascending
};

struct LayersOfRotary {
  Rotary rotary;
  std::vector<int64_t> layers;  // ascending
};

// The attention of op `attention` in all layers of a model.
struct ModelAttention {
  int64_t layers = 0;
  int64_t head_width = 0;
  int64_t positions = 0;  // positions of a sample
  kernels::ScoreTerms terms = {};
  // Both lists are in the order of first layers, and each has every layer in exactly one entry. Both are empty if the
  // model has no keys for patterns: then every position sees all others.
  std::vector<LayersOfPattern> patterns = {};
  std::vector<LayersOfRotary> rotary = {};
};

}  // namespace strata::modules
