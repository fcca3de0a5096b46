// SPDX-License-Identifier: MIT
// Checks how ranks are named: one, some, a range, and too many for a line.
#include "base/text/ranks_text.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

namespace strata {
namespace {

std::string every_eighth(int count) {
  std::vector<int> ranks;
  for (int i = 0; i < count; ++i) ranks.push_back(8 * i);
  return ranks_text(ranks);
}

TEST(RanksText, NamesEachOfAFewRanks) {
  EXPECT_EQ(ranks_text({1}), "rank 1");
  EXPECT_EQ(ranks_text({0, 2}), "ranks 0 and 2");
  EXPECT_EQ(ranks_text({0, 1}), "ranks 0 and 1");
  EXPECT_EQ(ranks_text({0, 2, 13}), "ranks 0, 2 and 13");
  EXPECT_EQ(every_eighth(8), "ranks 0, 8, 16, 24, 32, 40, 48 and 56");
}

TEST(RanksText, NamesARangeByItsEnds) {
  EXPECT_EQ(ranks_text({3, 4, 5}), "ranks 3-5");
  EXPECT_EQ(ranks_text({3, 4, 6}), "ranks 3, 4 and 6");
  std::vector<int> all(4096);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(ranks_text(all), "ranks 0-4095");
}

TEST(RanksText, CountsWhatALineHasNoPlaceFor) {
  EXPECT_EQ(every_eighth(9), "ranks 0, 8, 16, 24 and 5 more");
  EXPECT_EQ(every_eighth(512), "ranks 0, 8, 16, 24 and 508 more");
}

}  // namespace
}  // namespace strata
