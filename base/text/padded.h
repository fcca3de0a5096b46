// SPDX-License-Identifier: MIT
// Pads a text with spaces, for a column of a table.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

namespace strata {

// Returns the text with spaces after it, `width` characters in all. A longer text gets one space.
inline std::string padded(std::string text, size_t width) {
  text.resize(std::max(width, text.size() + 1), ' ');
  return text;
}

}  // namespace strata
