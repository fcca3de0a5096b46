// SPDX-License-Identifier: MIT
// Checks that the words which kernels get for a pattern say the same as its definition.
#include "kernels/attention/pattern/tile_words.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "kernels/attention/pattern/one_document.h"
#include "kernels/attention/pattern/parse_pattern.h"
#include "kernels/attention/pattern/program.h"
#include "kernels/attention/pattern/residues.h"
#include "kernels/attention/pattern/visible.h"
#include "tests/kernels/pattern/random_pattern.h"

namespace strata::kernels {
namespace {

constexpr int64_t kLongest = 150;  // positions of random cases

// As kernels compute it: the words whose bits are in `evaluated`, with 32-bit integers that wrap.
bool sees(const TileWords& words, int32_t evaluated, int32_t query, int32_t key, const std::vector<int32_t>& document) {
  const auto in_band = [&](int32_t lowest, int32_t highest) {
    const auto u = [](int32_t x) { return static_cast<uint32_t>(x); };
    return u(query) - u(lowest) - u(key) <= u(highest) - u(lowest);
  };
  const int32_t distance = std::abs(query - key);
  bool seen = true;
  if (evaluated & TileWords::band) seen = seen && in_band(words.lowest, words.highest);
  if (evaluated & TileWords::documents) {
    seen = seen && document[static_cast<size_t>(query)] == document[static_cast<size_t>(key)];
  }
  if ((evaluated & TileWords::kAnyOf) == 0) return seen;
  bool any_of = false;
  if (evaluated & TileWords::near) any_of |= in_band(words.near_lowest, words.near_highest);
  if (evaluated & TileWords::stride) any_of |= distance < words.span && distance % words.step == 0;
  if (evaluated & TileWords::prefix) any_of |= key < words.first_keys;
  if (evaluated & TileWords::global) any_of |= std::min(query, key) < words.border;
  if (evaluated & TileWords::blocks) {
    any_of |= sees_block(std::bit_cast<uint32_t>(words.hash_key), words.threshold, query / kBlockPositions,
                         key / kBlockPositions);
  }
  return seen && any_of;
}

// Returns the first pair that the words do not see as the pattern does, or "".
std::string fault(const Pattern& pattern, const TileWords& words, int32_t evaluated, int64_t positions,
                  const std::vector<int32_t>& document) {
  for (int32_t query = 0; query < positions; ++query) {
    for (int32_t key = 0; key < positions; ++key) {
      if (sees(words, evaluated, query, key, document) != sees(pattern, query, key, document)) {
        return "query " + std::to_string(query) + ", key " + std::to_string(key);
      }
    }
  }
  return "";
}

TEST(TileWords, SayTheSameAsRandomPatterns) {
  Draws draws(11);
  const int cases = std::getenv("STRATA_TEST_ALL") == nullptr ? 3000 : 50000;
  int with_form = 0;
  for (int i = 0; i < cases; ++i) {
    const int64_t positions = 1 + draws.below(kLongest);
    const Pattern pattern = random_pattern(draws, 1 + draws.below(4), positions);
    const std::vector<int32_t> document = random_documents(draws, positions);
    const TileWords words = tile_words(compile_program(pattern));
    if (words.bits == TileWords::program) continue;
    ++with_form;
    ASSERT_EQ(fault(pattern, words, words.bits, positions, document), "") << to_text(pattern);
    // A kernel may evaluate more words. What it must not evaluate without their bit has no neutral numbers.
    constexpr int32_t kMore =
        TileWords::band | TileWords::near | TileWords::stride | TileWords::prefix | TileWords::global;
    ASSERT_EQ(fault(pattern, words, words.bits | kMore, positions, document), "") << to_text(pattern) << ", more words";
  }
  EXPECT_GT(with_form, cases / 2);
}

TEST(TileWords, PatternsThatPeopleUseHaveAForm) {
  constexpr auto bits = [](const char* text) { return tile_words(compile_program(parse_pattern(text))).bits; };
  using W = TileWords;
  EXPECT_EQ(bits("full"), W::band);
  EXPECT_EQ(bits("causal & window(256)"), W::band);
  EXPECT_EQ(bits("causal & documents & window(9)"), W::band | W::documents);
  EXPECT_EQ(bits("causal | prefix(9)"), W::near | W::prefix);
  EXPECT_EQ(bits("window(9) | global(3)"), W::near | W::global);
  EXPECT_EQ(bits("causal & (window(9) | global(3))"), W::band | W::near | W::global);
  EXPECT_EQ(bits("causal & documents & (global(3) | dilated(9, 2))"), W::band | W::documents | W::global | W::stride);
  EXPECT_EQ(bits("blocks(0.25, 1) & causal"), W::band | W::blocks);
  EXPECT_EQ(bits("prefix(3) | prefix(5)"), W::prefix);
  const TileWords two_bands = tile_words(
      {.length = 3, .instructions = {{Operation::band, -5, 9}, {Operation::band, -3, 12}, {Operation::both}}});
  EXPECT_EQ(std::pair(two_bands.lowest, two_bands.highest), std::pair(-3, 9));
  for (const char* text : {"causal | window(3)", "documents | causal", "dilated(2, 3) | dilated(3, 2)",
                           "prefix(3) & global(4)", "causal & window(4) & prefix(9) | global(1)"}) {
    EXPECT_EQ(bits(text), W::program) << text;
  }
}

TEST(Residues, SayTheSameAsRandomPatterns) {
  Draws draws(12);
  int split = 0;
  for (int i = 0; i < 2000; ++i) {
    const int64_t positions = 1 + draws.below(240);
    Pattern pattern = {.kind = Pattern::Kind::dilated, .n = 1 + draws.below(9), .step = 1 + draws.below(6)};
    if (draws.below(2) == 0) pattern = std::move(pattern) & random_pattern(draws, 1 + draws.below(2), positions);
    const std::vector<int32_t> document = random_documents(draws, positions);
    const Residues residues = residues_of(pattern, positions, /*row_width=*/64);
    if (residues.step == 1) {
      ASSERT_EQ(residues.pattern, pattern);
      continue;
    }
    ++split;
    ASSERT_EQ(positions % residues.step, 0);  // so that the lists of all residues are the same
    for (int64_t query = 0; query < positions; ++query) {
      for (int64_t key = 0; key < positions; ++key) {
        const bool alike = query % residues.step == key % residues.step;
        const bool seen = alike && sees(residues.pattern, query / residues.step, key / residues.step);
        ASSERT_EQ(seen, sees(pattern, query, key, document)) << to_text(pattern) << ": " << query << ", " << key;
      }
    }
  }
  EXPECT_GT(split, 100);
}

TEST(Residues, HaveManyPositionsAndOffsetsOf32Bits) {
  const auto step = [](const char* text, int64_t positions, int64_t row_width) {
    return residues_of(parse_pattern(text), positions, row_width).step;
  };
  EXPECT_EQ(step("dilated(9, 4)", 128, 64), 4);
  EXPECT_EQ(step("dilated(9, 4)", 124, 64), 1);
  EXPECT_EQ(step("dilated(2, 4096)", 8192, 64), 1);
  // 64 rows that are 8192 positions apart.
  EXPECT_EQ(step("causal & dilated(64, 8192)", 1 << 19, 1024), 8192);
  EXPECT_EQ(step("causal & dilated(64, 8192)", 1 << 19, 6144), 1);
}

TEST(OneDocument, SeesAtLeastWhatDocumentsShow) {
  Draws draws(13);
  for (int i = 0; i < 1000; ++i) {
    const int64_t positions = 1 + draws.below(60);
    const Pattern pattern = random_pattern(draws, 1 + draws.below(4), positions);
    const Pattern one = for_one_document(pattern);
    ASSERT_FALSE(has_word(one, Pattern::Kind::documents));
    const std::vector<int32_t> document = random_documents(draws, positions), same(document.size());
    for (int64_t query = 0; query < positions; ++query) {
      for (int64_t key = 0; key < positions; ++key) {
        ASSERT_EQ(sees(one, query, key), sees(pattern, query, key, same)) << to_text(pattern);
        const bool seen = sees(pattern, query, key, document);
        ASSERT_LE(seen, sees(one, query, key)) << to_text(pattern);
        if (seen && keeps_documents_apart(pattern)) {
          ASSERT_EQ(document[static_cast<size_t>(query)], document[static_cast<size_t>(key)]) << to_text(pattern);
        }
      }
    }
  }
}

}  // namespace
}  // namespace strata::kernels
