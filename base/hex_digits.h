// SPDX-License-Identifier: MIT
// A number of 64 bits as 16 hexadecimal digits: what fingerprints of data look like.
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
