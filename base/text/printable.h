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

// Returns printable_utf8 of the first 40 bytes and how many more there are. Where one word is expected, a hostile file
// can have megabytes.
std::string printable_start(std::string_view text);

// Returns a message of several lines as it may be written to a terminal: printable_utf8 of each line, of at most 4 KiB,
// and at most 64 KiB in all. A configuration with 100 errors has 50 KiB. Tabs become blanks.
std::string printable_lines(std::string_view message);

}  // namespace strata
