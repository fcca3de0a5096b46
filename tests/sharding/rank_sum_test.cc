// SPDX-License-Identifier: MIT
#include "sharding/communication/rank_sum.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace strata::sharding {
namespace {

template <typename Element>
class RankSumTest : public testing::Test {};
using Elements = testing::Types<float, c10::BFloat16, c10::Half, double, int64_t>;
TYPED_TEST_SUITE(RankSumTest, Elements);

TYPED_TEST(RankSumTest, AddsInRankOrder) {
  using Sum = std::conditional_t<sizeof(TypeParam) == 2, float, TypeParam>;
  for (const int64_t count : {0, 1, 3, 1023, 1024, 1025, 5000}) {
    for (const size_t ranks : {1, 2, 3, 7}) {
      std::vector<std::vector<TypeParam>> inputs(ranks, std::vector<TypeParam>(static_cast<size_t>(count)));
      std::vector<const void*> parts;
      uint64_t state = 1;
      for (auto& input : inputs) {
        for (auto& element : input) {
          state = state * 6364136223846793005u + 1442695040888963407u;
          element = static_cast<TypeParam>(static_cast<double>(static_cast<int32_t>(state >> 32)) *
                                           (state % 3 == 0 ? 1e-6 : 1e-3));
        }
        parts.push_back(input.data());
      }
      std::vector<TypeParam> expected(static_cast<size_t>(count));
      for (size_t i = 0; i < expected.size(); ++i) {
        Sum sum = static_cast<Sum>(inputs[0][i]);
        for (size_t rank = 1; rank < ranks; ++rank) sum += static_cast<Sum>(inputs[rank][i]);
        expected[i] = static_cast<TypeParam>(sum);
      }
      // The result goes into one of the parts, as in in-place collectives.
      reduce_in_rank_order(Reduction::sum, c10::CppTypeToScalarType<TypeParam>::value, parts, inputs[ranks - 1].data(),
                           count);
      EXPECT_TRUE(count == 0 || std::memcmp(inputs[ranks - 1].data(), expected.data(), count * sizeof(TypeParam)) == 0)
          << count << " of " << ranks;
    }
  }
}

TYPED_TEST(RankSumTest, FindsTheLargest) {
  for (const size_t count : {0u, 1u, 1023u, 1025u}) {
    std::vector<TypeParam> a(count), b(count), c(count), expected(count);
    for (size_t i = 0; i < count; ++i) {
      const int64_t number = static_cast<int64_t>(i * 7919 % 251) - 125;
      a[i] = static_cast<TypeParam>(static_cast<float>(i % 3 == 0 ? number : number - 2));
      b[i] = static_cast<TypeParam>(static_cast<float>(i % 3 == 1 ? number : number - 1));
      c[i] = static_cast<TypeParam>(static_cast<float>(i % 3 == 2 ? number : number - 99));
      expected[i] = static_cast<TypeParam>(static_cast<float>(number));
    }
    reduce_in_rank_order(Reduction::largest, c10::CppTypeToScalarType<TypeParam>::value, {a.data(), b.data(), c.data()},
                         b.data(), static_cast<int64_t>(count));
    EXPECT_EQ(b, expected) << count;
  }
}

TEST(RankSum, BFloat16IsRoundedOnce) {
  // 257 is not a bfloat16, because bfloat16 numbers near 256 are 2 apart. If each addition rounded, the ones would be
  // lost.
  const c10::BFloat16 parts[3] = {256, 1, 1};
  c10::BFloat16 sum;
  reduce_in_rank_order(Reduction::sum, c10::ScalarType::BFloat16, {&parts[0], &parts[1], &parts[2]}, &sum, 1);
  EXPECT_EQ(static_cast<float>(sum), 258);
}

TEST(RankSum, WholeNumbersWrapAround) {
  // Sums of hashes do. A signed sum that overflows is undefined, which the sanitizer for undefined behavior reports.
  const int64_t parts[2] = {std::numeric_limits<int64_t>::max(), 2};
  int64_t sum = 0;
  reduce_in_rank_order(Reduction::sum, c10::ScalarType::Long, {&parts[0], &parts[1]}, &sum, 1);
  EXPECT_EQ(sum, std::numeric_limits<int64_t>::min() + 1);
}

TEST(RankSum, WhatIsNotFiniteStaysSo) {
  const c10::BFloat16 infinite = std::numeric_limits<float>::infinity(), negative = -infinite, one = 1,
                      nothing = std::numeric_limits<float>::quiet_NaN();
  auto sum = [](const c10::BFloat16& a, const c10::BFloat16& b) {
    c10::BFloat16 result;
    reduce_in_rank_order(Reduction::sum, c10::ScalarType::BFloat16, {&a, &b}, &result, 1);
    return static_cast<float>(result);
  };
  EXPECT_EQ(sum(infinite, one), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(sum(infinite, negative)));
  EXPECT_TRUE(std::isnan(sum(nothing, one)));
}

}  // namespace
}  // namespace strata::sharding
