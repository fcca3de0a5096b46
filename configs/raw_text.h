// SPDX-License-Identifier: MIT
// What a text must be before a YAML parser sees it: UTF-8 without control characters, indented by spaces.
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

// The first thing that is wrong with the bytes of a configuration.
std::optional<RawProblem> find_raw_problem(std::string_view text);

// Turns places in bytes into columns in characters. Places that come in order cost one pass over the text.
class CharacterColumns {
 public:
  explicit CharacterColumns(std::string_view text) : text_(text) {}

  // The column, from 1, of byte `position`, which is byte `byte_column` (from 0) of its line.
  int column(int position, int byte_column);

 private:
  std::string_view text_;
  int64_t line_begin_ = 0, counted_to_ = 0;
  int characters_ = 0;  // of the line, before counted_to_
};

}  // namespace strata::configs
