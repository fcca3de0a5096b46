// SPDX-License-Identifier: MIT
// Which patterns each level of attention takes.
#pragma once

#include <string>

#include "kernels/attention/pattern/pattern.h"
#include "kernels/runtime/level.h"

namespace strata::kernels {

// Returns "" if the level takes the pattern, otherwise what was expected and which levels take it, such as "expected
// full or causal; levels aten and torchscript take it". Does not know whether the level has a kernel on a device.
// Throws an Error with ExitCode::configuration if the pattern has more than kMostWords words.
std::string why_not_pattern(Level level, const Pattern& pattern);

}  // namespace strata::kernels
