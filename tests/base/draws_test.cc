// SPDX-License-Identifier: MIT
#include "base/draws.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <numbers>

#include "base/permutation.h"

namespace strata {
namespace {

// The keys whose first word has all bits set, and none.
constexpr uint64_t kLargest = 0x1e8d824fcb95953du, kSmallest = 0x61c8864680b583ebu;
static_assert(mix(kLargest, 0) == ~uint64_t{0} && mix(kSmallest, 0) == 0);

TEST(Draws, StayBelowTheirBoundsForTheLargestWord) {
  EXPECT_LT(Draws(kLargest).uniform(), 1.0);
  for (const int64_t count : {int64_t{1}, int64_t{3}, int64_t{1024}, int64_t{65500}, (int64_t{1} << 53) - 1}) {
    EXPECT_EQ(Draws(kLargest).below(count), count - 1);
  }
}

TEST(Draws, StayAboveZeroForTheSmallestWord) {
  EXPECT_GT(Draws(kSmallest).uniform(), 0.0);
  EXPECT_EQ(Draws(kSmallest).below(1024), 0);
}

// Resumed runs and replays need the same samples from every compiler.
TEST(Draws, NormalTakesTheRadiusFirstAndThenTheAngle) {
  for (uint64_t key = 0; key < 1000; ++key) {
    Draws normal(key), uniform(key);
    const double first = uniform.uniform(), second = uniform.uniform();
    ASSERT_EQ(normal.normal(), std::sqrt(-2 * std::log(first)) * std::cos(2 * std::numbers::pi * second)) << key;
  }
}

}  // namespace
}  // namespace strata
