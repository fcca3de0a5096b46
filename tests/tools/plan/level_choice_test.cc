// SPDX-License-Identifier: MIT
// The level of a key is that whose uses take the least time together, if it has all of them.
#include "tools/plan/level_choice.h"

#include <gtest/gtest.h>

namespace strata::tools {
namespace {

using kernels::Level;

TEST(LevelChoice, TakesTheLevelWhoseUsesTakeTheLeastTogether) {
  LevelTotals totals;
  totals.add("linear", Level::aten, 10), totals.add("linear", Level::cuda, 3);
  totals.add("linear", Level::aten, 1), totals.add("linear", Level::cuda, 9);
  totals.add("rms_norm", Level::triton, 2), totals.add("rms_norm", Level::cuda, 5);
  const LevelChoice choice = totals.best();
  EXPECT_EQ(choice.levels.linear, Level::aten);
  EXPECT_EQ(choice.levels.rms_norm, Level::triton);
  EXPECT_EQ(choice.levels.attention, std::nullopt);
  EXPECT_EQ(choice.microseconds, 13);
  EXPECT_EQ(choice.impossible, "");
}

TEST(LevelChoice, LeavesOutWhatLacksAUse) {
  LevelTotals totals;
  totals.add("linear", Level::aten, 10), totals.add("linear", Level::cuda, 1);
  totals.add("linear", Level::aten, 10), totals.add("linear", Level::cuda, std::nullopt);
  EXPECT_EQ(totals.best().levels.linear, Level::aten);
  totals.add("linear", Level::aten, std::nullopt);
  EXPECT_EQ(totals.best().levels.linear, std::nullopt);
  EXPECT_EQ(totals.best().impossible, "linear");
}

}  // namespace
}  // namespace strata::tools
