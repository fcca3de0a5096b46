// SPDX-License-Identifier: MIT
// Random patterns and packings of documents for tests.
#pragma once

#include <cstdint>
#include <vector>

#include "base/draws.h"
#include "kernels/attention/pattern/pattern.h"

namespace strata::kernels {

inline Pattern random_word(Draws& draws, int64_t positions) {
  const std::span<const PatternWord> words = pattern_words();
  Pattern pattern = {.kind = words[static_cast<size_t>(draws.below(static_cast<int64_t>(words.size())))].kind};
  // Small numbers, and numbers about and above the length.
  const int64_t most = draws.below(2) == 0 ? 5 : positions + 5;
  for (const PatternWord& word : words) {
    if (word.kind != pattern.kind) continue;
    for (const PatternNumber& number : word.numbers) {
      if (number.whole == nullptr) {
        pattern.density = static_cast<double>(draws.below(5)) / 4;
      } else {
        pattern.*number.whole = number.minimum + draws.below(most);
      }
    }
  }
  if (pattern.kind == Pattern::Kind::dilated) pattern.step = 1 + draws.below(draws.below(4) == 0 ? positions + 2 : 6);
  return pattern;
}

// A random expression of `words` words.
inline Pattern random_pattern(Draws& draws, int64_t words, int64_t positions) {
  if (words == 1) return random_word(draws, positions);
  const int64_t left = 1 + draws.below(words - 1);
  Pattern a = random_pattern(draws, left, positions), b = random_pattern(draws, words - left, positions);
  return draws.below(2) == 0 ? std::move(a) & std::move(b) : std::move(a) | std::move(b);
}

// The document of each position. Ids ascend, and some are left out.
inline std::vector<int32_t> random_documents(Draws& draws, int64_t positions) {
  const int64_t longest = 1 + draws.below(positions);
  std::vector<int32_t> document_of;
  for (int32_t id = 0; static_cast<int64_t>(document_of.size()) < positions;
       id += 1 + static_cast<int32_t>(draws.below(3))) {
    document_of.insert(document_of.end(), static_cast<size_t>(1 + draws.below(longest)), id);
  }
  document_of.resize(static_cast<size_t>(positions));
  return document_of;
}

}  // namespace strata::kernels
