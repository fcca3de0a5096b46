// SPDX-License-Identifier: MIT
// Which patterns, terms of scores and heads each level of attention takes, and what the level stores and computes for
// them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/attention/pattern/pattern.h"
#include "kernels/attention/score_terms.h"
#include "kernels/runtime/level.h"

namespace strata::kernels {

// Returns "" if the level takes the pattern with such heads, otherwise what was expected and which levels take it. Does
// not know whether the level has a kernel on a device. Throws an Error with ExitCode::configuration if the pattern has
// more than kMostWords words.
std::string why_not_pattern(Level level, const Pattern& pattern, int64_t head_width);

// The same for queries that are a part of a row whose keys are all there. The level takes the pattern of whole rows.
std::string why_not_part(Level level, const Pattern& pattern, const ScoreTerms& terms, int64_t head_width);

// The same for the terms of scores, with a pattern that the level takes.
std::string why_not_terms(Level level, const Pattern& pattern, const ScoreTerms& terms, int64_t head_width);

// The same for heads of this width, in 16 bits or in float32.
std::string why_not_heads(Level level, bool in_16_bits, int64_t width);

// The work and the memory of a level that takes pattern and terms.
struct PatternCost {
  bool all_pairs = false;        // computed, also those that are not visible; otherwise tiles that have visible ones
  std::string_view stores = {};  // tensors as large as all pairs: "T x T booleans"; empty: nothing
};
// `is_part`: the queries are chunks of a row. GPUs are Hopper GPUs.
PatternCost pattern_cost(Level level, const Pattern& pattern, const ScoreTerms& terms, int64_t head_width,
                         bool deterministic, bool is_part = false);

}  // namespace strata::kernels
