// SPDX-License-Identifier: MIT
// Which patterns each level of attention takes.
#pragma once

#include <string>

#include "kernels/attention/pattern/pattern.h"
#include "kernels/runtime/level.h"

namespace strata::kernels {

// Returns "" if kernels of this level take the pattern, otherwise a sentence with the patterns that they take and the
// levels that take this one. Throws an Error with ExitCode::configuration if the pattern has more than kMostWords
// words.
std::string why_not_at(Level level, const Pattern& pattern);

}  // namespace strata::kernels
