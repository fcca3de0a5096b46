// SPDX-License-Identifier: MIT
// Each level takes the patterns that docs/attention.md says.
#include "kernels/attention/pattern_levels.h"

#include <gtest/gtest.h>

#include "kernels/attention/pattern/parse_pattern.h"

namespace strata::kernels {
namespace {

TEST(PatternLevels, TakeWhatThePageSays) {
  struct Case {
    const char* pattern;
    bool cuda;
  };
  for (const auto& [text, cuda] : {Case{"full", true},
                                   {"causal", true},
                                   {"causal & window(9)", true},
                                   {"window(9) & full & causal & window(3)", true},
                                   {"window(9)", true},
                                   {"documents", true},
                                   {"window(9) & documents", true},
                                   {"causal & (window(9) & documents)", true},
                                   {"causal | window(9)", false},
                                   {"causal | documents", false},
                                   {"causal & dilated(9, 2)", false},
                                   {"causal | prefix(9)", true},
                                   {"prefix(9) | causal | prefix(3)", true},
                                   {"causal & window(9) | prefix(9)", false},
                                   {"(causal | prefix(9)) & documents", false},
                                   {"prefix(9)", false},
                                   {"full | prefix(9)", false},
                                   {"causal & (window(9) | global(1))", false},
                                   {"blocks(0.5, 1)", false}}) {
    const Pattern pattern = parse_pattern(text);
    for (const Level level : {Level::aten, Level::torchscript, Level::aot_inductor, Level::triton}) {
      EXPECT_EQ(why_not_pattern(level, pattern), "") << text;
    }
    EXPECT_EQ(why_not_pattern(Level::cuda, pattern).empty(), cuda) << text;
  }
  EXPECT_EQ(why_not_pattern(Level::cuda, parse_pattern("causal & dilated(9, 2)")),
            "expected full, causal, window(n) or causal & window(n), each alone or with & documents, or causal | "
            "prefix(n); levels aten, torchscript, aot_inductor and triton take it");
}

TEST(PatternLevels, TakePartsOfRows) {
  const Pattern causal = parse_pattern("causal"), documents = parse_pattern("causal & documents");
  for (const Level level : {Level::aten, Level::torchscript, Level::triton}) {
    EXPECT_EQ(why_not_part(level, documents, {.alibi = true}), "");
  }
  EXPECT_EQ(why_not_part(Level::cuda, causal, {.softcap = 50, .sinks = true}), "");
  EXPECT_EQ(why_not_part(Level::cuda, parse_pattern("causal | prefix(9)"), {.softcap = 50, .sinks = true}), "");
  EXPECT_EQ(why_not_part(Level::cuda, causal, {.alibi = true}),
            "expected no alibi; levels aten, torchscript and triton take it");
  EXPECT_EQ(why_not_part(Level::cuda, documents, {}),
            "expected a pattern without documents; levels aten, torchscript and triton take it");
  EXPECT_EQ(why_not_part(Level::aot_inductor, causal, {}),
            "expected whole rows, which its packages are compiled for; levels aten, torchscript and triton take it");
  EXPECT_TRUE(pattern_cost(Level::aten, causal, {}, false, /*of_part=*/true).all_pairs);
  EXPECT_EQ(pattern_cost(Level::aten, parse_pattern("full"), {}, false, /*of_part=*/true).stores, "");
  EXPECT_FALSE(pattern_cost(Level::triton, causal, {}, false, /*of_part=*/true).all_pairs);
}

TEST(PatternLevels, TakeTerms) {
  const Pattern causal = parse_pattern("causal"), window = parse_pattern("window(9)");
  const Pattern documents = parse_pattern("causal & documents");
  constexpr ScoreTerms kAlibi = {.alibi = true}, kSoftcap = {.softcap = 50}, kSinks = {.sinks = true};
  for (const ScoreTerms& terms : {ScoreTerms{}, kAlibi, kSoftcap, kSinks}) {
    for (const Level level : {Level::aten, Level::torchscript, Level::aot_inductor, Level::triton}) {
      EXPECT_EQ(why_not_terms(level, window, terms), "");
    }
    EXPECT_EQ(why_not_terms(Level::cuda, causal, terms), "");
    EXPECT_EQ(pattern_cost(Level::triton, causal, terms, false).stores, "");
    EXPECT_EQ(pattern_cost(Level::aot_inductor, causal, terms, false).stores, "");
    EXPECT_EQ(pattern_cost(Level::cuda, causal, terms, false).stores, "");
    if (terms.any()) {
      EXPECT_EQ(pattern_cost(Level::aten, causal, terms, false).stores, "the scores of all pairs");
      EXPECT_TRUE(pattern_cost(Level::aten, causal, terms, false).all_pairs);
    }
  }
}

TEST(PatternLevels, TakeTermsAtLevelCudaAsCudnnDoes) {
  const std::string others = "; levels aten, torchscript, aot_inductor and triton take it";
  const auto why_not = [](const char* pattern, const ScoreTerms& terms) {
    return why_not_terms(Level::cuda, parse_pattern(pattern), terms);
  };
  EXPECT_EQ(why_not("causal & window(9)", {.softcap = 50, .sinks = true}), "");
  EXPECT_EQ(why_not("window(9)", {.softcap = 50}), "");
  EXPECT_EQ(why_not("causal & window(9)", {.alibi = true, .sinks = true}), "");
  EXPECT_EQ(why_not("causal & documents", {.alibi = true}), "");
  EXPECT_EQ(why_not("causal & documents", {.softcap = 50}), "");
  EXPECT_EQ(why_not("causal | prefix(9)", {.softcap = 50, .sinks = true}), "");
  EXPECT_EQ(why_not("causal | prefix(9)", {.alibi = true}), "expected a causal pattern with alibi" + others);
  EXPECT_EQ(why_not("causal", {.alibi = true, .softcap = 50}), "expected alibi or a softcap, and not both" + others);
  EXPECT_EQ(why_not("full", {.alibi = true}), "expected a causal pattern with alibi" + others);
  EXPECT_EQ(why_not("window(9)", {.alibi = true}), "expected a causal pattern with alibi" + others);
  EXPECT_EQ(why_not("causal & documents", {.sinks = true}), "expected a pattern without documents with sinks" + others);
}

TEST(PatternLevels, StoreAllPairsWithAMask) {
  const Pattern causal = parse_pattern("causal"), window = parse_pattern("causal & window(9)");
  EXPECT_EQ(pattern_cost(Level::aten, causal, {}, false).stores, "");
  EXPECT_FALSE(pattern_cost(Level::aten, causal, {}, false).all_pairs);
  EXPECT_EQ(pattern_cost(Level::aten, window, {}, false).stores, "T x T booleans");
  EXPECT_TRUE(pattern_cost(Level::aten, window, {}, false).all_pairs);
  EXPECT_EQ(pattern_cost(Level::torchscript, causal, {}, false).stores, "the scores of all pairs");
  EXPECT_TRUE(pattern_cost(Level::torchscript, causal, {}, false).all_pairs);
  EXPECT_EQ(pattern_cost(Level::triton, causal, {}, true).stores, "");
  EXPECT_EQ(pattern_cost(Level::cuda, window, {}, false).stores, "");
  EXPECT_NE(pattern_cost(Level::cuda, window, {}, true).stores, "");
  EXPECT_FALSE(pattern_cost(Level::cuda, window, {}, true).all_pairs);
}

}  // namespace
}  // namespace strata::kernels
