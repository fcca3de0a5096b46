// SPDX-License-Identifier: MIT
#include "kernels/attention/pattern/pattern.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <utility>

namespace strata::kernels {
namespace {

using Kind = Pattern::Kind;

constexpr int64_t kMostPositions = std::numeric_limits<int32_t>::max();
constexpr int64_t kMostSeed = std::numeric_limits<uint32_t>::max();

constexpr PatternNumber kCount = {.name = "n", .whole = &Pattern::n, .minimum = 1, .maximum = kMostPositions};
constexpr std::array kOneCount = {kCount};
constexpr std::array kCountAndStep = {
    kCount, PatternNumber{.name = "step", .whole = &Pattern::step, .minimum = 1, .maximum = kMostPositions}};
constexpr std::array kDensityAndSeed = {
    PatternNumber{.name = "density"},
    PatternNumber{.name = "seed", .whole = &Pattern::seed, .minimum = 0, .maximum = kMostSeed}};

constexpr std::array kWords = {
    PatternWord{Kind::full, "full"},
    PatternWord{Kind::causal, "causal"},
    PatternWord{Kind::window, "window", kOneCount},
    PatternWord{Kind::dilated, "dilated", kCountAndStep},
    PatternWord{Kind::prefix, "prefix", kOneCount},
    PatternWord{Kind::global, "global", kOneCount},
    PatternWord{Kind::blocks, "blocks", kDensityAndSeed},
    PatternWord{Kind::documents, "documents"},
};

Pattern combined(Kind kind, Pattern a, Pattern b) {
  Pattern result = {.kind = kind};
  for (Pattern* side : {&a, &b}) {
    if (side->kind == kind) {
      std::move(side->parts.begin(), side->parts.end(), std::back_inserter(result.parts));
    } else {
      result.parts.push_back(std::move(*side));
    }
  }
  return result;
}

// The shortest text that is read as the same number.
std::string shortest(double number) {
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number);
  return {buffer.data(), end.ptr};
}

std::string word_text(const Pattern& pattern) {
  for (const PatternWord& word : kWords) {
    if (word.kind != pattern.kind) continue;
    std::string text(word.name);
    for (size_t i = 0; i < word.numbers.size(); ++i) {
      const PatternNumber& number = word.numbers[i];
      text += i == 0 ? "(" : ", ";
      text += number.whole == nullptr ? shortest(pattern.density) : std::to_string(pattern.*number.whole);
    }
    return word.numbers.empty() ? text : text + ")";
  }
  return "";
}

}  // namespace

std::string PatternWord::text() const {
  std::string result(name);
  for (size_t i = 0; i < numbers.size(); ++i) result.append(i == 0 ? "(" : ", ").append(numbers[i].name);
  return numbers.empty() ? result : result + ")";
}

std::span<const PatternWord> pattern_words() { return kWords; }

Pattern operator&(Pattern a, Pattern b) { return combined(Kind::both, std::move(a), std::move(b)); }
Pattern operator|(Pattern a, Pattern b) { return combined(Kind::either, std::move(a), std::move(b)); }
Pattern within_documents(Pattern pattern) { return std::move(pattern) & Pattern{.kind = Kind::documents}; }

std::string to_text(const Pattern& pattern) {
  if (pattern.parts.empty()) return word_text(pattern);
  std::string text;
  for (const Pattern& part : pattern.parts) {
    const std::string inner = to_text(part);
    if (!text.empty()) text += pattern.kind == Kind::both ? " & " : " | ";
    // Only an | inside of an & needs parentheses.
    text += pattern.kind == Kind::both && part.kind == Kind::either ? "(" + inner + ")" : inner;
  }
  return text;
}

int count_words(const Pattern& pattern) {
  int words = pattern.parts.empty() ? 1 : 0;
  for (const Pattern& part : pattern.parts) words += count_words(part);
  return words;
}

bool has_word(const Pattern& pattern, Kind kind) {
  return pattern.kind == kind || std::any_of(pattern.parts.begin(), pattern.parts.end(),
                                             [&](const Pattern& part) { return has_word(part, kind); });
}

}  // namespace strata::kernels
