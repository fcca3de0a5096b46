// SPDX-License-Identifier: MIT
#include "configs/value.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

#include "base/text/nearest_name.h"
#include "configs/number.h"

namespace strata::configs {
namespace {

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::optional<bool> parse_boolean(const std::string& text) {
  const std::string word = lower_case(text);
  if (word == "true" || word == "yes" || word == "on") return true;
  if (word == "false" || word == "no" || word == "off") return false;
  return std::nullopt;
}

std::string listed(const std::vector<std::string>& words) {
  if (words.size() == 1) return "'" + words[0] + "'";  // unlike "text" as a kind of value
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += words[i];
  }
  return text;
}

std::string limits_text(const Limits& limits) {
  std::string text;
  if (std::isfinite(limits.minimum))
    text += (limits.excludes_minimum ? ", above " : ", at least ") + to_text(limits.minimum);
  if (std::isfinite(limits.maximum))
    text += (limits.excludes_maximum ? ", below " : ", at most ") + to_text(limits.maximum);
  return text;
}

std::string wrong(const Node& node, const ValueType& type) {
  return "expected " + type.expected() + ", got " + node.described();
}

// Checks a number that was read from a scalar; integers and reals are treated the same.
template <class Number>
ValueOrProblem checked(const NumberOrProblem<Number>& number, const ValueType& type, const Node& node) {
  if (!number.value) {
    return {std::nullopt, wrong(node, type) + (number.problem.empty() ? "" : "; " + number.problem)};
  }
  if (!type.limits.allow(static_cast<double>(*number.value))) return {std::nullopt, wrong(node, type)};
  return {Value(*number.value), ""};
}

ValueOrProblem checked_range(const Node& node, const ValueType& type) {
  std::optional<Range> range = parse_range(node.text);
  std::optional<std::string> mark;
  if (const size_t space = node.text.rfind(' '); !range && !type.marks.empty() && space != std::string::npos) {
    range = parse_range(node.text.substr(0, space));
    mark = node.text.substr(space + 1);
  }
  if (!range) return {std::nullopt, wrong(node, type)};
  if (range->last < range->first) {
    return {std::nullopt, wrong(node, type) + ", which is empty: its end is before its start"};
  }
  if (!mark) return {Value(*range), ""};
  if (std::find(type.marks.begin(), type.marks.end(), *mark) == type.marks.end()) {
    return {std::nullopt, wrong(node, type) + did_you_mean(nearest_name(*mark, type.marks))};
  }
  return {Value(to_text(*range) + " " + *mark), ""};
}

ValueOrProblem parse_text(const Node& node, const ValueType& type) {
  if (node.text.empty() && !type.may_be_empty) return {std::nullopt, "expected " + type.expected() + ", got none"};
  const auto control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  if (std::any_of(node.text.begin(), node.text.end(), control)) {
    return {std::nullopt, "expected text on one line and without control characters"};
  }
  const bool is_number = parse_real(node.text).value.has_value();
  if (!node.quoted && (is_number || parse_boolean(node.text))) {
    const std::string kind = is_number ? "the number " : "the truth value ";
    return {std::nullopt,
            "expected text, got " + kind + node.text + "; if you mean text, quote it: \"" + node.text + "\""};
  }
  return {Value(node.text), ""};
}

// True if any YAML reader reads the text without quotes as this text.
bool reads_as_itself(const std::string& text) {
  const auto ordinary = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '.' || c == '/'; };
  const auto allowed = [&](unsigned char c) { return ordinary(c) || c == '*' || c == '+' || c == '-'; };
  if (text.empty() || !ordinary(static_cast<unsigned char>(text[0]))) return false;
  if (!std::all_of(text.begin(), text.end(), allowed)) return false;
  const std::string word = lower_case(text);
  const bool special = word == "null" || word == "y" || word == "n" || word == ".nan" || word == ".inf";
  const bool begins_as_number = std::isdigit(static_cast<unsigned char>(text[0])) || parse_real(text).value;
  return !special && !begins_as_number && !parse_boolean(text);
}

}  // namespace

std::string ValueType::expected() const {
  std::string text;
  switch (kind) {
    case Kind::boolean:
      text = "true or false";
      break;
    case Kind::integer:
      text = "an integer" + limits_text(limits);
      break;
    case Kind::real:
      text = "a number" + limits_text(limits);
      break;
    case Kind::text:
      text = "text";
      break;
    case Kind::word:
      return listed(words);
    case Kind::range:
      text = "a number or a range such as 0-3 or 0-30 step 2";
      if (!marks.empty()) text += ", alone or followed by " + listed(marks);
      break;
  }
  return words.empty() ? text : listed(words) + ", or " + text;
}

ValueOrProblem parse_value(const Node& node, const ValueType& type) {
  if (node.kind != Node::Kind::scalar) return {std::nullopt, wrong(node, type)};
  if (std::find(type.words.begin(), type.words.end(), node.text) != type.words.end()) return {Value(node.text), ""};
  const bool takes_words =
      type.kind == ValueType::Kind::text || type.kind == ValueType::Kind::word || type.kind == ValueType::Kind::range;
  if (node.quoted && !takes_words) return {std::nullopt, wrong(node, type) + "; leave the quotes out"};
  ValueOrProblem result;
  switch (type.kind) {
    case ValueType::Kind::boolean: {
      const auto value = parse_boolean(node.text);
      if (value) return {Value(*value), ""};
      return {std::nullopt,
              wrong(node, type) + did_you_mean(nearest_name(node.text, std::array<std::string, 2>{"true", "false"}))};
    }
    case ValueType::Kind::integer:
      result = checked(parse_integer(node.text), type, node);
      break;
    case ValueType::Kind::real:
      result = checked(parse_real(node.text), type, node);
      break;
    case ValueType::Kind::text:
      return parse_text(node, type);
    case ValueType::Kind::word:
      result.problem = wrong(node, type);
      break;
    case ValueType::Kind::range:
      result = checked_range(node, type);
      break;
  }
  if (!result.value && !type.words.empty()) result.problem += did_you_mean(nearest_name(node.text, type.words));
  return result;
}

std::optional<Range> parse_range(std::string_view text) {
  constexpr std::string_view kStep = " step ";
  const size_t at = text.find(kStep), dash = text.substr(0, at).find('-', 1);
  if (at != std::string_view::npos && dash == std::string_view::npos) return std::nullopt;
  const auto number = [&](size_t begin, size_t end) {
    return parse_integer(std::string(text.substr(begin, end - begin))).value;
  };
  const auto first = number(0, std::min(dash, at));
  const auto last = dash == std::string_view::npos ? first : number(dash + 1, at);
  const auto step = at == std::string_view::npos ? int64_t{1} : number(at + kStep.size(), text.size());
  if (!first || !last || !step || *first < 0 || *step < 1) return std::nullopt;
  return Range{*first, *last, *step};
}

std::string to_text(double number) {
  // Whole numbers are written without an exponent as long as a double represents all of them exactly.
  if (std::abs(number) < 1e15 && number == std::floor(number)) return std::to_string(static_cast<int64_t>(number));
  char text[64];
  const auto [end, error] = std::to_chars(text, text + sizeof text, number);
  return std::string(text, end);
}

std::string yaml_of(const Value& value) {
  if (const bool* truth = std::get_if<bool>(&value)) return *truth ? "true" : "false";
  if (const int64_t* integer = std::get_if<int64_t>(&value)) return std::to_string(*integer);
  if (const double* real = std::get_if<double>(&value)) return to_text(*real);
  if (const Range* range = std::get_if<Range>(&value)) return to_text(*range);
  const std::string& text = std::get<std::string>(value);
  if (reads_as_itself(text)) return text;
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

}  // namespace strata::configs
