// SPDX-License-Identifier: MIT
// Checks how ranks are named: one, some, and too many for a line.
#include "base/text/ranks_text.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

namespace strata {
namespace {

std::string first_ranks(size_t count) {
  std::vector<int> ranks(count);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks_text(ranks);
}

TEST(RanksText, NamesEachOfAFewRanks) {
  EXPECT_EQ(ranks_text({1}), "rank 1");
  EXPECT_EQ(ranks_text({0, 2}), "ranks 0 and 2");
  EXPECT_EQ(ranks_text({0, 2, 13}), "ranks 0, 2 and 13");
  EXPECT_EQ(first_ranks(8), "ranks 0, 1, 2, 3, 4, 5, 6 and 7");
}

TEST(RanksText, CountsWhatALineHasNoPlaceFor) {
  EXPECT_EQ(first_ranks(9), "ranks 0, 1, 2, 3 and 5 more");
  EXPECT_EQ(first_ranks(4096), "ranks 0, 1, 2, 3 and 4092 more");
}

}  // namespace
}  // namespace strata
