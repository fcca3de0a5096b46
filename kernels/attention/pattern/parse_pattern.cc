// SPDX-License-Identifier: MIT
#include "kernels/attention/pattern/parse_pattern.h"

#include <charconv>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "base/errors.h"
#include "base/text/nearest_name.h"
#include "base/text/utf8.h"

namespace strata::kernels {
namespace {

using Kind = Pattern::Kind;

constexpr size_t kMostBytes = 1000;
constexpr int kMostParentheses = 32;     // inside of each other
constexpr size_t kShownCharacters = 32;  // most characters of a word or a number in a message

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

enum class TokenKind { word, number, sign, end };

struct Token {
  TokenKind kind;
  std::string_view text;
  size_t at;  // index of its first byte

  bool is(char sign) const { return kind == TokenKind::sign && text.front() == sign; }
};

[[noreturn]] void refuse(size_t at, const std::string& problem) {
  throw Error(ExitCode::configuration, "attention pattern, column " + std::to_string(at + 1) + ": " + problem);
}

// Splits a text into tokens. What stands before a refused character is ASCII, so its byte is its column.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  Token next() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) ++at_;
    if (at_ == text_.size()) return {TokenKind::end, "", at_};
    const char first = text_[at_];
    if (is_letter(first)) return take(TokenKind::word, length_of_word());
    if (is_digit(first) || first == '.' || first == '-' || first == '+') {
      return take(TokenKind::number, length_of_number());
    }
    if (std::string_view("&|(),").find(first) != std::string_view::npos) return take(TokenKind::sign, 1);
    refuse(at_, "found " + shown_character() + ", which no pattern has");
  }

 private:
  Token take(TokenKind kind, size_t length) {
    const Token token = {kind, text_.substr(at_, length), at_};
    at_ += length;
    return token;
  }

  size_t length_of_word() const {
    size_t end = at_;
    while (end < text_.size() && (is_letter(text_[end]) || is_digit(text_[end]))) ++end;
    return end - at_;
  }

  // Takes letters too, so that a message shows 1e3, 4k or 0x10 as a whole.
  size_t length_of_number() const {
    size_t end = at_ + 1;
    while (end < text_.size()) {
      const char c = text_[end], before = text_[end - 1];
      const bool exponent = (c == '-' || c == '+') && (before == 'e' || before == 'E');
      if (!is_letter(c) && !is_digit(c) && c != '.' && !exponent) break;
      ++end;
    }
    return end - at_;
  }

  std::string shown_character() const {
    const auto byte = static_cast<unsigned char>(text_[at_]);
    const size_t bytes = utf8_bytes(text_.substr(at_));
    const bool control = byte < 0x20 || byte == 0x7f || (bytes == 2 && byte == 0xc2 && text_[at_ + 1] < char(0xa0));
    if (bytes != 0 && !control) return "'" + std::string(text_.substr(at_, bytes)) + "'";
    static constexpr char kDigits[] = "0123456789abcdef";
    return std::string("the byte 0x") + kDigits[byte >> 4] + kDigits[byte & 15];
  }

  std::string_view text_;
  size_t at_ = 0;
};

std::string shown(const Token& token) {
  if (token.kind == TokenKind::end) return "the end of the text";
  const bool all = token.text.size() <= kShownCharacters;
  return "'" + std::string(token.text.substr(0, kShownCharacters)) + (all ? "'" : "...'");
}

[[noreturn]] void refuse(const Token& token, const std::string& expected) {
  refuse(token.at, "found " + shown(token) + ", expected " + expected);
}

std::string every_word() {
  std::string text;
  for (const PatternWord& word : pattern_words()) text += word.text() + ", ";
  return text;
}

// Returns the number if all of the text is one.
template <class Number>
std::optional<Number> number_of(std::string_view text) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

// expression: term | term ...; term: factor & factor ...; factor: (expression), or a word with its numbers.
class Parser {
 public:
  explicit Parser(std::string_view text) : lexer_(text), token_(lexer_.next()) {}

  Pattern parse() {
    Pattern pattern = expression();
    if (token_.kind != TokenKind::end) refuse(token_, "'&', '|' or the end of the text");
    return pattern;
  }

 private:
  Token advance() {
    const Token token = token_;
    token_ = lexer_.next();
    return token;
  }

  Pattern expression() {
    Pattern pattern = term();
    while (token_.is('|')) {
      advance();
      pattern = std::move(pattern) | term();
    }
    return pattern;
  }

  Pattern term() {
    Pattern pattern = factor();
    while (token_.is('&')) {
      advance();
      pattern = std::move(pattern) & factor();
    }
    return pattern;
  }

  Pattern factor() {
    if (!token_.is('(')) return word();
    if (++parentheses_ > kMostParentheses) {
      refuse(token_, "at most " + std::to_string(kMostParentheses) + " parentheses inside of each other");
    }
    const Token open = advance();
    Pattern pattern = expression();
    if (!token_.is(')')) {
      refuse(token_, "'&', '|' or the ')' of the '(' in column " + std::to_string(open.at + 1));
    }
    advance();
    --parentheses_;
    return pattern;
  }

  Pattern word() {
    const Token token = advance();
    const PatternWord* word = nullptr;
    std::vector<std::string> names;
    for (const PatternWord& each : pattern_words()) {
      names.emplace_back(each.name);
      if (token.kind == TokenKind::word && each.name == token.text) word = &each;
    }
    if (word == nullptr) {
      const bool misspelled = token.kind == TokenKind::word;
      refuse(token, every_word() + "or '('" + (misspelled ? did_you_mean(nearest_name(token.text, names)) : ""));
    }
    if (++words_ > kMostWords) refuse(token, "at most " + std::to_string(kMostWords) + " words");
    Pattern pattern = {.kind = word->kind};
    for (const PatternNumber& number : word->numbers) {
      const bool first = &number == word->numbers.data();
      if (!token_.is(first ? '(' : ',')) refuse(token_, std::string(first ? "'('" : "','") + " of " + word->text());
      advance();
      read(number, *word, pattern);
    }
    if (word->numbers.empty()) {
      if (token_.is('(')) refuse(token_, "no '(' after " + word->text() + ", which takes no numbers");
      return pattern;
    }
    if (!token_.is(')')) refuse(token_, "')' of " + word->text());
    advance();
    return pattern;
  }

  void read(const PatternNumber& number, const PatternWord& word, Pattern& pattern) {
    const std::string name = std::string(number.name) + " of " + word.text();
    if (number.whole == nullptr) {
      const std::optional<double> value = number_of<double>(token_.text);
      if (token_.kind != TokenKind::number || !value || token_.text.front() == '-' || *value > 1) {
        refuse(token_, name + ", a number from 0 to 1");
      }
      pattern.density = *value;
    } else {
      const std::optional<int64_t> value = number_of<int64_t>(token_.text);
      if (!value || *value < number.minimum || *value > number.maximum) {
        refuse(token_, name + ", a whole number from " + std::to_string(number.minimum) + " to " +
                           std::to_string(number.maximum));
      }
      pattern.*number.whole = *value;
    }
    advance();
  }

  Lexer lexer_;
  Token token_;
  int parentheses_ = 0, words_ = 0;
};

}  // namespace

Pattern parse_pattern(std::string_view text) {
  if (text.size() > kMostBytes) {
    refuse(kMostBytes,
           "found " + std::to_string(text.size()) + " bytes, expected at most " + std::to_string(kMostBytes));
  }
  return Parser(text).parse();
}

}  // namespace strata::kernels
