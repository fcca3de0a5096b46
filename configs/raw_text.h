// SPDX-License-Identifier: MIT
// What a text must be before a YAML parser sees it: UTF-8 without control characters, indented by spaces.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace strata::configs {

struct RawProblem {
  int line, column;  // from 1
  std::string message;
};

// The first thing that is wrong with the bytes of a configuration.
std::optional<RawProblem> find_raw_problem(std::string_view text);

// How many characters stand before byte `position`, which is byte `byte_column` of its line.
int character_column(std::string_view text, int position, int byte_column);

}  // namespace strata::configs
