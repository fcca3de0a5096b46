// SPDX-License-Identifier: MIT
// Replaces control characters by '?', because names from files of others must not steer a terminal.
#pragma once

#include <string>
#include <string_view>

namespace strata {

std::string printable(std::string text);

// Replaces bytes that are not UTF-8 and the control characters U+0080 to U+009F too, so that the result is valid text
// in YAML, in JSON and on a terminal.
std::string printable_utf8(std::string_view text);

}  // namespace strata
