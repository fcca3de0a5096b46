// SPDX-License-Identifier: MIT
// Numbers as people write them: 10_000 and 1e9 are integers; 010 (8 or 10?), nan and inf are refused.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace strata::configs {

template <class Number>
struct NumberOrProblem {
  std::optional<Number> value;
  std::string problem = {};  // a reason, when there is one beyond "not a number"
};

NumberOrProblem<int64_t> parse_integer(std::string_view text);
NumberOrProblem<double> parse_real(std::string_view text);

}  // namespace strata::configs
