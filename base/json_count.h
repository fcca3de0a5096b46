// SPDX-License-Identifier: MIT
// Counts in JSON. nlohmann's get<int64_t>() also takes 1.5, which becomes 1, and numbers that do not fit.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

namespace strata {

// Returns a whole number from 0 to 2^63 - 1, or nothing if the value is anything else. The value must have been parsed
// from a text: a signed number that code has put in is refused.
inline std::optional<int64_t> json_count(const nlohmann::json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  const auto word = value.get<uint64_t>();
  if (word > uint64_t{std::numeric_limits<int64_t>::max()}) return std::nullopt;
  return static_cast<int64_t>(word);
}

}  // namespace strata
