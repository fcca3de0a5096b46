// SPDX-License-Identifier: MIT
#include "sharding/communication/host_group.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace strata::sharding {
namespace {

TEST(HostGroup, NamesOfRanksAreShort) {
  EXPECT_EQ(name_of_ranks({3}), "rank 3");
  EXPECT_EQ(name_of_ranks({1, 3}), "ranks 1, 3");
  EXPECT_EQ(name_of_ranks({0, 8, 16, 24, 32, 40, 48, 56}), "ranks 0, 8, 16, 24, 32, 40, 48, 56");
  std::vector<int> all(4096), every_eighth;
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(name_of_ranks(all), "ranks 0-4095");
  for (int rank = 0; rank < 4096; rank += 8) every_eighth.push_back(rank);
  EXPECT_EQ(name_of_ranks(every_eighth), "ranks 0, 8, 16, 24, 32, 40, 48, 56, ... (512)");
}

}  // namespace
}  // namespace strata::sharding
