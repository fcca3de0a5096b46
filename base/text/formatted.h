// SPDX-License-Identifier: MIT
// formatted: the text that std::snprintf writes.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>

namespace strata {

template <class... Values>
std::string formatted(const char* pattern, Values... values) {
  std::string text(static_cast<size_t>(std::snprintf(nullptr, 0, pattern, values...)), ' ');
  std::snprintf(text.data(), text.size() + 1, pattern, values...);
  return text;
}

}  // namespace strata
