// SPDX-License-Identifier: MIT
// Splits a text into lines, for comparing the texts of several ranks.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace strata {

// A line break at the end of the text starts no further line.
inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0, end; begin < text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
  }
  return lines;
}

}  // namespace strata
