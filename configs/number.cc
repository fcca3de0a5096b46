// SPDX-License-Identifier: MIT
#include "configs/number.h"

#include <charconv>

namespace strata::configs {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The parts of [+-] digits [. digits] [e [+-] digits]; underscores between digits are dropped.
struct Decimal {
  bool negative = false;
  std::string whole, fraction;
  bool has_point = false;
  std::string exponent;  // with its minus sign, if any
};

// Moves digits from the front of `text` to `digits`. Returns false if an underscore is not between two digits.
bool take_digits(std::string_view& text, std::string& digits) {
  size_t i = 0;
  for (; i < text.size() && (is_digit(text[i]) || text[i] == '_'); ++i) {
    if (is_digit(text[i])) {
      digits += text[i];
      continue;
    }
    if (i == 0 || i + 1 == text.size() || !is_digit(text[i - 1]) || !is_digit(text[i + 1])) return false;
  }
  text.remove_prefix(i);
  return true;
}

std::optional<Decimal> split(std::string_view text) {
  Decimal decimal;
  const auto take = [&](char c) {
    if (!text.starts_with(c)) return false;
    text.remove_prefix(1);
    return true;
  };
  decimal.negative = take('-');
  if (!decimal.negative) take('+');
  if (!take_digits(text, decimal.whole)) return std::nullopt;
  if (take('.')) {
    decimal.has_point = true;
    if (!take_digits(text, decimal.fraction)) return std::nullopt;
  }
  if (decimal.whole.empty() && decimal.fraction.empty()) return std::nullopt;
  if (take('e') || take('E')) {
    decimal.exponent = take('-') ? "-" : "";
    if (decimal.exponent.empty()) take('+');
    const size_t sign = decimal.exponent.size();
    if (!take_digits(text, decimal.exponent) || decimal.exponent.size() == sign) return std::nullopt;
  }
  if (!text.empty()) return std::nullopt;
  return decimal;
}

std::string leading_zero(const Decimal& decimal) {
  if (decimal.whole.size() < 2 || decimal.whole[0] != '0') return "";
  const size_t first = std::min(decimal.whole.find_first_not_of('0'), decimal.whole.size() - 1);
  return "a leading zero can mean octal: write " + decimal.whole.substr(first);
}

}  // namespace

NumberOrProblem<int64_t> parse_integer(std::string_view text) {
  const auto decimal = split(text);
  if (!decimal) return {std::nullopt, ""};
  if (const std::string problem = leading_zero(*decimal); !problem.empty()) return {std::nullopt, problem};
  // The exponent moves the decimal point to the right: 1.5e3 is 1500.
  std::string digits = decimal->whole + decimal->fraction;
  int64_t exponent = 0;
  const std::string& written = decimal->exponent;
  const auto parsed = std::from_chars(written.data(), written.data() + written.size(), exponent);
  if (parsed.ec == std::errc::result_out_of_range || exponent > 1000 || exponent < -1000) {
    return {std::nullopt, "its exponent is out of range"};
  }
  exponent -= static_cast<int64_t>(decimal->fraction.size());
  const bool zero = digits.find_first_not_of('0') == std::string::npos;
  if (zero) return {0, ""};
  for (; exponent < 0; ++exponent) {
    if (digits.empty() || digits.back() != '0') return {std::nullopt, ""};
    digits.pop_back();
  }
  digits.append(static_cast<size_t>(exponent), '0');
  digits.insert(0, decimal->negative ? "-" : "");
  int64_t value = 0;
  if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec == std::errc::result_out_of_range) {
    return {std::nullopt, "it does not fit into 64 bits"};
  }
  return {value, ""};
}

NumberOrProblem<double> parse_real(std::string_view text) {
  const auto decimal = split(text);
  if (!decimal) return {std::nullopt, ""};
  if (const std::string problem = leading_zero(*decimal); !problem.empty()) return {std::nullopt, problem};
  const std::string plain = (decimal->negative ? "-" : "") + (decimal->whole.empty() ? "0" : decimal->whole) + "." +
                            (decimal->fraction.empty() ? "0" : decimal->fraction) +
                            (decimal->exponent.empty() ? "" : "e" + decimal->exponent);
  double value = 0;
  const auto parsed = std::from_chars(plain.data(), plain.data() + plain.size(), value);
  if (parsed.ec != std::errc()) return {std::nullopt, "it is too large or too small for a 64-bit number"};
  return {value, ""};
}

}  // namespace strata::configs
