// SPDX-License-Identifier: MIT
// One value of a configuration: what a field accepts, how it is read from text and written back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
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
  std::vector<std::string> words = {};  // the choices of kind word; for other kinds, words accepted besides
  bool may_be_empty = false;            // for kind text
  std::vector<std::string> marks = {};  // for kind range: words of which one may follow; it is a text then: "4-7 word"

  // "an integer, at least 1"
  std::string expected() const;
};

// What was read, or what was wrong with it ("expected ..., got ...").
struct ValueOrProblem {
  std::optional<Value> value;
  std::string problem;
};
ValueOrProblem parse_value(const Node& node, const ValueType& type);

// As YAML that reads back as the same value.
std::string yaml_of(const Value& value);

// The shortest decimal that reads back as the same number.
std::string text_of(double number);

}  // namespace strata::configs
