// SPDX-License-Identifier: MIT
// Reads a pattern from its text, such as `causal & (window(256) | global(16))`.
#pragma once

#include <string_view>

#include "kernels/attention/pattern/pattern.h"

namespace strata::kernels {

// Blanks are free, and words are written in lower case. Throws an Error with ExitCode::configuration for a wrong text,
// which says the column (counted from 1), what was found there and what was expected.
Pattern parse_pattern(std::string_view text);

}  // namespace strata::kernels
