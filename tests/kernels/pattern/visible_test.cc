// SPDX-License-Identifier: MIT
#include "kernels/attention/pattern/visible.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/attention/pattern/key_bits.h"
#include "kernels/attention/pattern/parse_pattern.h"
#include "kernels/attention/pattern/program.h"
#include "tests/kernels/pattern/random_pattern.h"

namespace strata::kernels {
namespace {

using Pairs = std::set<std::pair<int64_t, int64_t>>;  // pairs of query and key

constexpr int64_t kPositions = 70;

// Adds the pairs that `visit(query, add)` adds, if they are inside of the row.
template <class Visit>
Pairs pairs_of(Visit visit) {
  Pairs pairs;
  for (int64_t query = 0; query < kPositions; ++query) {
    visit(query, [&](int64_t key) {
      if (key >= 0 && key < kPositions) pairs.emplace(query, key);
    });
  }
  return pairs;
}

std::vector<int32_t> documents() {
  std::vector<int32_t> document_of(kPositions);
  for (size_t i = 0; i < document_of.size(); ++i) document_of[i] = i < 5 ? 0 : i < 6 ? 1 : i < 40 ? 4 : 5;
  return document_of;
}

Pairs seen_by(const std::string& text) {
  const Pattern pattern = parse_pattern(text);
  const std::vector<int32_t> document_of = documents();
  return pairs_of([&](int64_t query, auto add) {
    for (int64_t key = 0; key < kPositions; ++key) {
      if (sees(pattern, query, key, document_of)) add(key);
    }
  });
}

TEST(Visible, EachWordByALoop) {
  EXPECT_EQ(seen_by("full"), pairs_of([](int64_t, auto add) {
              for (int64_t key = 0; key < kPositions; ++key) add(key);
            }));
  EXPECT_EQ(seen_by("causal"), pairs_of([](int64_t query, auto add) {
              for (int64_t key = 0; key <= query; ++key) add(key);
            }));
  EXPECT_EQ(seen_by("window(7)"), pairs_of([](int64_t query, auto add) {
              for (int64_t key = query - 6; key <= query + 6; ++key) add(key);
            }));
  EXPECT_EQ(seen_by("window(1)"), pairs_of([](int64_t query, auto add) { add(query); }));
  EXPECT_EQ(seen_by("causal & window(7)"), pairs_of([](int64_t query, auto add) {
              for (int64_t back = 0; back < 7; ++back) add(query - back);
            }));
  EXPECT_EQ(seen_by("dilated(5, 3)"), pairs_of([](int64_t query, auto add) {
              for (int64_t i = 0; i < 5; ++i) add(query - 3 * i), add(query + 3 * i);
            }));
  EXPECT_EQ(seen_by("prefix(9)"), pairs_of([](int64_t, auto add) {
              for (int64_t key = 0; key < 9; ++key) add(key);
            }));
  EXPECT_EQ(seen_by("global(2)"), pairs_of([](int64_t query, auto add) {
              add(0), add(1);
              for (int64_t key = 0; key < kPositions && query < 2; ++key) add(key);
            }));
  EXPECT_EQ(seen_by("documents"), pairs_of([](int64_t query, auto add) {
              const int64_t begin = query < 5 ? 0 : query < 6 ? 5 : query < 40 ? 6 : 40;
              const int64_t end = query < 5 ? 5 : query < 6 ? 6 : query < 40 ? 40 : kPositions;
              for (int64_t key = begin; key < end; ++key) add(key);
            }));
}

TEST(Visible, BlocksAreSeenWholeAndTheDiagonalAlways) {
  const Pairs diagonal = pairs_of([](int64_t query, auto add) {
    for (int64_t key = query < 64 ? 0 : 64; key < (query < 64 ? 64 : kPositions); ++key) add(key);
  });
  EXPECT_EQ(seen_by("blocks(0, 3)"), diagonal);
  EXPECT_EQ(seen_by("blocks(1, 3)").size(), static_cast<size_t>(kPositions * kPositions));
}

TEST(Visible, JoinedAsSets) {
  const Pairs window = seen_by("window(4)"), causal = seen_by("causal"), global = seen_by("global(3)");
  Pairs both, either = window;
  for (const auto& pair : window) {
    if (causal.contains(pair)) both.insert(pair);
  }
  either.insert(causal.begin(), causal.end());
  EXPECT_EQ(seen_by("window(4) & causal"), both);
  EXPECT_EQ(seen_by("window(4) | causal"), either);
  // & binds tighter.
  both.insert(global.begin(), global.end());
  EXPECT_EQ(seen_by("global(3) | window(4) & causal"), both);
  EXPECT_NE(seen_by("(global(3) | window(4)) & causal"), both);
}

// A program in 32 bits, and 64 keys at once, give what the definition gives.
TEST(Visible, ProgramsAgreeWithTheDefinition) {
  Draws draws(1);
  for (int i = 0; i < 1000; ++i) {
    const int64_t positions = 1 + draws.below(300);
    const Pattern pattern = random_pattern(draws, 1 + draws.below(kMostWords), positions);
    const std::vector<int32_t> document_of = random_documents(draws, positions);
    const Program program = compile_program(pattern);
    ASSERT_LE(program.length, kMostInstructions);
    for (int j = 0; j < 200; ++j) {
      const auto query = static_cast<int32_t>(draws.below(positions)),
                 key = static_cast<int32_t>(draws.below(positions));
      const bool seen = sees(pattern, query, key, document_of);
      const auto id = [&](int32_t position) { return document_of[static_cast<size_t>(position)]; };
      ASSERT_EQ(sees(program, query, key, id(query), id(key)), seen) << to_text(pattern) << " " << query << " " << key;
      const uint64_t bits = evaluate(program, [&](const Instruction& instruction, int32_t) {
        return key_bits(instruction, query, key / kKeysOfBits * kKeysOfBits, document_of);
      });
      ASSERT_EQ((bits >> (key % kKeysOfBits) & 1) != 0, seen) << to_text(pattern) << " " << query << " " << key;
    }
  }
}

// The largest numbers and positions: a product or a difference that overflows would be seen here.
TEST(Visible, ProgramsAtTheLargestPositions) {
  constexpr int64_t kLast = 2147483646;
  for (const char* text :
       {"full", "causal", "window(2147483647)", "window(2147483646)", "dilated(2147483647, 2147483647)",
        "dilated(3, 1073741823)", "dilated(2, 2147483646)", "dilated(1073741824, 2)", "prefix(2147483647)",
        "global(2147483646)", "blocks(0.5, 4294967295)"}) {
    const Pattern pattern = parse_pattern(text);
    const Program program = compile_program(pattern);
    for (const int64_t query : {int64_t{0}, int64_t{1}, kLast / 2, kLast - 1, kLast}) {
      for (const int64_t key : {int64_t{0}, int64_t{1}, kLast / 2, kLast - 1, kLast}) {
        EXPECT_EQ(sees(program, static_cast<int32_t>(query), static_cast<int32_t>(key)), sees(pattern, query, key))
            << text << " " << query << " " << key;
      }
    }
  }
}

// As the page of attention has it, for those who write kernels.
TEST(Visible, ProgramOfThePage) {
  const Program program = compile_program(parse_pattern("causal & (window(256) | global(16))"));
  std::vector<int32_t> integers;
  for (int32_t i = 0; i < program.length; ++i) {
    const Instruction& instruction = program.instructions[i];
    integers.insert(integers.end(),
                    {static_cast<int32_t>(instruction.operation), instruction.first, instruction.second});
  }
  EXPECT_EQ(integers, (std::vector<int32_t>{2, 0, 2147483647, 2, -255, 255, 5, 16, 0, 1, 0, 0, 0, 0, 0}));
  EXPECT_EQ(compile_program(parse_pattern("window(300) & causal & full & window(256)")).length, 1);
}

// These are the patterns of kernels that know only a band of distances and documents.
TEST(Visible, PatternsThatAreABandAndDocuments) {
  const auto band = [](const char* text) { return band_of(compile_program(parse_pattern(text))); };
  EXPECT_TRUE(band("full")->is_full());
  EXPECT_TRUE(band("causal")->is_causal());
  EXPECT_FALSE(band("causal & window(5)")->is_causal());
  EXPECT_EQ(band("window(5) & causal")->lowest, 0);
  EXPECT_EQ(band("window(5) & causal")->highest, 4);
  EXPECT_EQ(band("window(5)")->lowest, -4);
  EXPECT_FALSE(band("causal")->documents);
  EXPECT_TRUE(band("documents")->documents && band("documents")->is_full());
  EXPECT_TRUE(band("causal & documents & window(9)")->documents);
  EXPECT_EQ(band("causal & documents & window(9)")->highest, 8);
  for (const char* text : {"causal | documents", "causal | window(3)", "dilated(3, 1)", "prefix(3) & causal",
                           "documents & (causal | window(3))", "blocks(0, 0)", "global(1)"}) {
    EXPECT_FALSE(band(text)) << text;
  }
}

TEST(Visible, PatternsThatAreCausalWithAPrefix) {
  const auto prefix = [](const char* text) { return causal_prefix_of(compile_program(parse_pattern(text))); };
  EXPECT_EQ(prefix("causal | prefix(5)"), 5);
  EXPECT_EQ(prefix("prefix(5) | (causal & full)"), 5);
  EXPECT_EQ(prefix("prefix(5) | (causal | prefix(2147483647)) | prefix(7)"), 2147483647);
  for (const char* text : {"causal", "prefix(5)", "full | prefix(5)", "causal & window(9) | prefix(5)",
                           "causal & prefix(5)", "causal | prefix(5) & documents", "(causal | prefix(5)) & documents",
                           "causal | prefix(5) | global(1)", "causal | prefix(5) | window(2)"}) {
    EXPECT_FALSE(prefix(text)) << text;
  }
}

}  // namespace
}  // namespace strata::kernels
