// SPDX-License-Identifier: MIT
// Numbers for people: 12,345,678.
#pragma once

#include <cstdint>
#include <string>

namespace strata {

inline std::string grouped_digits(int64_t number) {
  std::string text = std::to_string(number);
  for (int64_t i = static_cast<int64_t>(text.size()) - 3; i > (number < 0 ? 1 : 0); i -= 3) text.insert(i, 1, ',');
  return text;
}

}  // namespace strata
