// SPDX-License-Identifier: MIT
// Formats a 64-bit number as 16 hexadecimal digits, the form of all fingerprints of data.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace strata {

inline std::string hex_digits(uint64_t number) {
  char digits[17];
  std::snprintf(digits, sizeof(digits), "%016llx", static_cast<unsigned long long>(number));
  return digits;
}

}  // namespace strata
