// SPDX-License-Identifier: MIT
// Parses numbers as people write them: 10_000 and 1e9 are integers; 010 (8 or 10?), nan and inf are refused.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace strata::configs {

template <class Number>
struct NumberOrProblem {
  std::optional<Number> value;
  std::string problem = {};  // the reason, if it is more specific than "not a number"
};

NumberOrProblem<int64_t> parse_integer(std::string_view text);
NumberOrProblem<double> parse_real(std::string_view text);

}  // namespace strata::configs
