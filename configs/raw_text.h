// SPDX-License-Identifier: MIT
// Checks a text before the YAML parser reads it: it must be UTF-8 without control characters and be indented by spaces.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace strata::configs {

struct RawProblem {
  int line, column;  // from 1
  std::string message;
};

// Returns the first problem in the bytes of a configuration.
std::optional<RawProblem> find_raw_problem(std::string_view text);

// Converts byte positions to columns in characters. Positions in increasing order cost one pass over the text.
class CharacterColumns {
 public:
  explicit CharacterColumns(std::string_view text) : text_(text) {}

  // Returns the column, counted from 1, of the byte at `position` in the text, which is byte `byte_column` of its line.
  // Both are counted from 0.
  int column(int position, int byte_column);

 private:
  std::string_view text_;
  int64_t line_begin_ = 0, counted_to_ = 0;
  int characters_ = 0;  // characters of the line before counted_to_
};

}  // namespace strata::configs
