// SPDX-License-Identifier: MIT
// Pattern: which keys each query of attention sees, as an expression of words joined by & and |.
//
// The words, for a query and a key that are positions of one row, counted from 0:
//   full                  every pair.
//   causal                key <= query.
//   window(n)             |query - key| < n: n - 1 positions on both sides, and its own. `causal & window(n)` are the n
//                         last positions including its own.
//   dilated(n, step)      distances 0, step, 2 step, ..., (n - 1) step on both sides.
//   prefix(n)             key < n. `causal | prefix(n)` is the prefix language model.
//   global(n)             query < n or key < n.
//   blocks(density, seed) positions in blocks of kBlockPositions. Block (i, i) is seen, and any other block (i, j) with
//                         probability density, by the hash in block_hash.h. Whole pairs of blocks are seen or not.
//   documents             the document of the query is the document of the key. The ids are given at run time.
// a & b: seen by both. a | b: seen by one of them. & binds tighter than |.
//
// Sources: window, dilated and global after Longformer (Beltagy et al. 2020), whose window counts both sides together;
// blocks after BigBird (Zaheer et al. 2020), which draws a fixed number of blocks for each row; prefix after T5 (Raffel
// et al. 2020); documents, and joining by & and |, after FlexAttention (Dong et al. 2024).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strata::kernels {

inline constexpr int32_t kBlockPositions = 64;
// Words that an expression may have. A program then has at most 31 instructions and needs 16 bits of stack.
inline constexpr int kMostWords = 16;

struct Pattern {
  enum class Kind { full, causal, window, dilated, prefix, global, blocks, documents, both, either };

  Kind kind = Kind::full;
  int64_t n = 0, step = 0;  // arguments of window, dilated, prefix and global
  double density = 0;       // argument of blocks: the share of blocks that are seen
  int64_t seed = 0;
  std::vector<Pattern> parts = {};  // operands of both (&) and either (|): at least two, none of the same kind

  bool operator==(const Pattern&) const = default;
};

// Chains of one operator become one list of parts: (a & b) & c and a & (b & c) are equal.
Pattern operator&(Pattern a, Pattern b);
Pattern operator|(Pattern a, Pattern b);

// Returns `pattern & documents`.
Pattern within_documents(Pattern pattern);

// A number that a word takes. The density is the only one that is not whole.
struct PatternNumber {
  std::string_view name;
  int64_t Pattern::*whole = nullptr;
  int64_t minimum = 0, maximum = 0;
};

struct PatternWord {
  Pattern::Kind kind;
  std::string_view name;
  std::span<const PatternNumber> numbers = {};

  std::string text() const;  // as in window(n)
};

// All words, in the order of this page.
std::span<const PatternWord> pattern_words();

// The canonical text: one blank around operators and after commas, parentheses only where they are needed. Reading it
// gives the same pattern.
std::string to_text(const Pattern& pattern);

// The number of words, and whether one of them is of this kind.
int count_words(const Pattern& pattern);
bool has_word(const Pattern& pattern, Pattern::Kind kind);

}  // namespace strata::kernels
