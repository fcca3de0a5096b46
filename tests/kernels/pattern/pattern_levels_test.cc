// SPDX-License-Identifier: MIT
#include "kernels/attention/pattern_levels.h"

#include <gtest/gtest.h>

#include "kernels/attention/pattern/parse_pattern.h"

namespace strata::kernels {
namespace {

bool takes(Level level, const std::string& pattern) { return why_not_pattern(level, parse_pattern(pattern)).empty(); }

TEST(PatternLevels, AreThoseOfTheirKernels) {
  for (const std::string pattern : {"full", "causal"}) {
    for (const Level level : {Level::aten, Level::torchscript, Level::triton, Level::cuda}) {
      EXPECT_TRUE(takes(level, pattern)) << name(level) << " " << pattern;
    }
  }
  for (const std::string pattern : {"documents", "causal & documents", "documents & causal", "causal & window(3)",
                                    "full & documents", "causal & window(3) & documents"}) {
    EXPECT_TRUE(takes(Level::cuda, pattern)) << pattern;
    EXPECT_FALSE(takes(Level::triton, pattern)) << pattern;
  }
  for (const std::string pattern : {"window(3)", "causal | documents", "causal & global(2)", "window(3) & documents",
                                    "causal & (documents | window(2))", "causal & dilated(3, 2)"}) {
    EXPECT_TRUE(takes(Level::aten, pattern)) << pattern;
    EXPECT_TRUE(takes(Level::torchscript, pattern)) << pattern;
    EXPECT_FALSE(takes(Level::triton, pattern)) << pattern;
    EXPECT_FALSE(takes(Level::cuda, pattern)) << pattern;
  }
}

TEST(PatternLevels, NameWhatIsTakenAndByWhom) {
  const Pattern documents = within_documents(parse_pattern("causal"));
  EXPECT_EQ(why_not_pattern(Level::triton, documents),
            "expected full or causal; levels aten, torchscript and cuda take it");
  EXPECT_EQ(why_not_pattern(Level::triton, within_documents(parse_pattern("causal | prefix(2)"))),
            "expected full or causal; levels aten and torchscript take "
            "it");
  EXPECT_EQ(why_not_pattern(Level::cuda, parse_pattern("causal & global(2)")),
            "expected full, causal or causal & window(n), each alone or with & "
            "documents; levels aten and torchscript take it");
}

}  // namespace
}  // namespace strata::kernels
