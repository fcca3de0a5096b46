// SPDX-License-Identifier: MIT
// Finds out which queries see later keys: a model that predicts or generates tokens one after another must not see
// them. A row is one document here, which shows most pairs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention/pattern/pattern.h"

namespace strata::kernels {

// True if a query in a row of `positions` sees a later key that is not one of the first `known_positions` positions.
bool sees_later_keys(const Pattern& pattern, int64_t known_positions, int64_t positions);

// Returns the pattern with prefixes that show no key. If the result sees no later key, `pattern` is for a prefix
// language model: it shows later keys only inside of its prefixes.
Pattern without_prefixes(const Pattern& pattern);

// Returns for each position whether a token after it reaches it through layers with these patterns, first to last.
// Requires that without prefixes no layer sees a later key.
std::vector<bool> reached_by_later(std::span<const Pattern> layers, int64_t positions);

}  // namespace strata::kernels
