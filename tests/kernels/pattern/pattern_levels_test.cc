// SPDX-License-Identifier: MIT
// Each level takes the patterns that docs/attention.md says.
#include "kernels/attention/pattern_levels.h"

#include <gtest/gtest.h>

#include "kernels/attention/pattern/parse_pattern.h"

namespace strata::kernels {
namespace {

constexpr int64_t kOther = 96;  // a width of heads for which level cuda is cuDNN alone

TEST(PatternLevels, TakeWhatThePageSays) {
  struct Case {
    const char* pattern;
    bool by_cudnn;  // with heads of any width
  };
  for (const auto& [text, by_cudnn] : {Case{"full", true},
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
      EXPECT_EQ(why_not_pattern(level, pattern, kOther), "") << text;
    }
    EXPECT_EQ(why_not_pattern(Level::cuda, pattern, kOther).empty(), by_cudnn) << text;
    for (const int64_t width : {64, 128}) EXPECT_EQ(why_not_pattern(Level::cuda, pattern, width), "") << text;
  }
  EXPECT_EQ(why_not_pattern(Level::cuda, parse_pattern("causal & dilated(9, 2)"), kOther),
            "expected full, causal, window(n) or causal & window(n), each alone or with & documents, or causal | "
            "prefix(n), or heads of 64 or 128; levels aten, torchscript, aot_inductor and triton take it");
}

TEST(PatternLevels, TakePartsOfRows) {
  const Pattern causal = parse_pattern("causal"), documents = parse_pattern("causal & documents");
  for (const Level level : {Level::aten, Level::torchscript, Level::triton}) {
    EXPECT_EQ(why_not_part(level, documents, {.alibi = true}, kOther), "");
  }
  EXPECT_EQ(why_not_part(Level::cuda, causal, {.softcap = 50, .sinks = true}, kOther), "");
  EXPECT_EQ(why_not_part(Level::cuda, parse_pattern("causal | prefix(9)"), {.softcap = 50, .sinks = true}, kOther), "");
  EXPECT_EQ(why_not_part(Level::cuda, causal, {.alibi = true}, kOther),
            "expected no alibi; levels aten, torchscript and triton take it");
  EXPECT_EQ(why_not_part(Level::cuda, documents, {}, kOther),
            "expected a pattern without documents; levels aten, torchscript and triton take it");
  EXPECT_EQ(why_not_part(Level::aot_inductor, causal, {}, kOther),
            "expected whole rows, which its packages are compiled for; levels aten, torchscript and triton take it");
  EXPECT_TRUE(pattern_cost(Level::aten, causal, {}, kOther, false, /*is_part=*/true).all_pairs);
  EXPECT_EQ(pattern_cost(Level::aten, parse_pattern("full"), {}, kOther, false, /*is_part=*/true).stores, "");
  EXPECT_FALSE(pattern_cost(Level::triton, causal, {}, kOther, false, /*is_part=*/true).all_pairs);
}

TEST(PatternLevels, TakeTerms) {
  const Pattern causal = parse_pattern("causal"), window = parse_pattern("window(9)");
  const Pattern documents = parse_pattern("causal & documents");
  constexpr ScoreTerms kAlibi = {.alibi = true}, kSoftcap = {.softcap = 50}, kSinks = {.sinks = true};
  for (const ScoreTerms& terms : {ScoreTerms{}, kAlibi, kSoftcap, kSinks}) {
    for (const Level level : {Level::aten, Level::torchscript, Level::aot_inductor, Level::triton}) {
      EXPECT_EQ(why_not_terms(level, window, terms, kOther), "");
    }
    EXPECT_EQ(why_not_terms(Level::cuda, causal, terms, kOther), "");
    EXPECT_EQ(pattern_cost(Level::triton, causal, terms, kOther, false).stores, "");
    EXPECT_EQ(pattern_cost(Level::aot_inductor, causal, terms, kOther, false).stores, "");
    EXPECT_EQ(pattern_cost(Level::cuda, causal, terms, kOther, false).stores, "");
    if (terms.any()) {
      EXPECT_EQ(pattern_cost(Level::aten, causal, terms, kOther, false).stores, "the scores of all pairs");
      EXPECT_TRUE(pattern_cost(Level::aten, causal, terms, kOther, false).all_pairs);
    }
  }
}

TEST(PatternLevels, TakeTermsAtLevelCudaAsCudnnDoes) {
  const std::string others = "; levels aten, torchscript, aot_inductor and triton take it";
  const auto why_not = [](const char* pattern, const ScoreTerms& terms) {
    return why_not_terms(Level::cuda, parse_pattern(pattern), terms, kOther);
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

TEST(PatternLevels, TakeMoreAtLevelCudaWithHeadsOf64And128) {
  const Pattern documents = parse_pattern("causal & documents"), blocks = parse_pattern("blocks(0.5, 1)");
  EXPECT_EQ(why_not_terms(Level::cuda, documents, {.sinks = true}, 64), "");
  EXPECT_EQ(why_not_terms(Level::cuda, blocks, {.sinks = true}, 128), "");
  EXPECT_EQ(why_not_terms(Level::cuda, documents, {.alibi = true}, 64), "");
  EXPECT_EQ(why_not_terms(Level::cuda, blocks, {.softcap = 50}, 64),
            "expected neither alibi nor a softcap with this pattern; levels aten, torchscript, aot_inductor and triton "
            "take it");
  EXPECT_EQ(why_not_part(Level::cuda, documents, {.sinks = true}, 128), "");
  EXPECT_EQ(why_not_part(Level::cuda, documents, {.softcap = 50}, 128),
            "expected a pattern without documents; levels aten, torchscript and triton take it");
}

TEST(PatternLevels, StoreAllPairsWithAMask) {
  const Pattern causal = parse_pattern("causal"), window = parse_pattern("causal & window(9)");
  EXPECT_EQ(pattern_cost(Level::aten, causal, {}, kOther, false).stores, "");
  EXPECT_FALSE(pattern_cost(Level::aten, causal, {}, kOther, false).all_pairs);
  EXPECT_EQ(pattern_cost(Level::aten, window, {}, kOther, false).stores, "T x T booleans");
  EXPECT_TRUE(pattern_cost(Level::aten, window, {}, kOther, false).all_pairs);
  EXPECT_EQ(pattern_cost(Level::torchscript, causal, {}, kOther, false).stores, "the scores of all pairs");
  EXPECT_TRUE(pattern_cost(Level::torchscript, causal, {}, kOther, false).all_pairs);
  EXPECT_EQ(pattern_cost(Level::triton, causal, {}, kOther, true).stores, "");
  EXPECT_EQ(pattern_cost(Level::cuda, window, {}, kOther, false).stores, "");
  EXPECT_NE(pattern_cost(Level::cuda, window, {}, kOther, true).stores, "");
  EXPECT_FALSE(pattern_cost(Level::cuda, window, {}, kOther, true).all_pairs);
  EXPECT_EQ(pattern_cost(Level::cuda, window, {}, 64, true).stores, "");
}

}  // namespace
}  // namespace strata::kernels
