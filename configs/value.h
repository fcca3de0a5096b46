// SPDX-License-Identifier: MIT
// One value of a configuration: the accepted types, parsing from text and writing as YAML.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "configs/document.h"
#include "configs/limits.h"
#include "configs/range.h"

namespace strata::configs {

using Value = std::variant<bool, int64_t, double, std::string, Range>;

struct ValueType {
  enum class Kind { boolean, integer, real, text, word, range };
  Kind kind = Kind::text;
  Limits limits = {};
  std::vector<std::string> words = {};  // choices of kind word; for other kinds, words that are accepted too
  bool may_be_empty = false;            // for kind text
  std::vector<std::string> marks = {};  // for kind range: words that may follow, making it a text: "4-7 word"

  // A description for error messages, such as "an integer, at least 1".
  std::string expected() const;
};

// The value that was read, or the problem with it ("expected ..., got ...").
struct ValueOrProblem {
  std::optional<Value> value;
  std::string problem;
};
ValueOrProblem parse_value(const Node& node, const ValueType& type);

// Reads `3`, `3-7` or `0-30 step 2`. Returns nothing for any other text. The end may be before the start.
std::optional<Range> parse_range(std::string_view text);

// Returns the value as YAML. Reading it again gives the same value.
std::string yaml_of(const Value& value);

// Writes the shortest decimal that reads back as the same number.
std::string to_text(double number);

}  // namespace strata::configs
