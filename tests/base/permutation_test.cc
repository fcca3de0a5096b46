// SPDX-License-Identifier: MIT
#include "base/permutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace strata {
namespace {

std::vector<int64_t> order(uint64_t key, int64_t size) {
  std::vector<int64_t> places(size);
  for (int64_t i = 0; i < size; ++i) places[i] = permuted(key, i, size);
  return places;
}

TEST(Permutation, VisitsEveryPlaceOnce) {
  for (const int64_t size : {1, 2, 3, 4, 5, 15, 16, 17, 255, 256, 257, 1000, 65537}) {
    for (const uint64_t key : {0, 1, 2, 77}) {
      std::vector<int64_t> places = order(key, size);
      std::sort(places.begin(), places.end());
      for (int64_t i = 0; i < size; ++i) ASSERT_EQ(places[i], i) << "size " << size << ", key " << key;
    }
  }
}

TEST(Permutation, WorksOnDomainsThatFitNoMemory) {
  const int64_t size = (int64_t{1} << 62) - 12345;
  for (int64_t i = 0; i < 1000; ++i) {
    const int64_t place = permuted(9, i, size);
    ASSERT_GE(place, 0);
    ASSERT_LT(place, size);
  }
}

TEST(Permutation, DependsOnTheKey) {
  const std::vector<int64_t> first = order(1, 1000), second = order(2, 1000);
  int64_t same = 0;
  for (size_t i = 0; i < first.size(); ++i) same += first[i] == second[i];
  EXPECT_LT(same, 10);  // independent permutations have 1 on average
}

// Chi-squared test over (first place, key): the place of element 0 of 16 under 16,000 keys. With 15 degrees of freedom
// the value stays below 37.7 with probability 0.999.
TEST(Permutation, SendsAnElementEverywhere) {
  constexpr int64_t kSize = 16, kKeys = 16000;
  std::vector<int64_t> count(kSize);
  for (int64_t key = 0; key < kKeys; ++key) ++count[permuted(mix(5, key), 0, kSize)];
  double chi_squared = 0;
  for (const int64_t c : count) chi_squared += std::pow(c - kKeys / kSize, 2) / (kKeys / kSize);
  EXPECT_LT(chi_squared, 37.7);
}

TEST(Permutation, NeighborsDoNotStayNeighbors) {
  const std::vector<int64_t> places = order(3, 4096);
  int64_t neighbors = 0;
  for (size_t i = 1; i < places.size(); ++i) neighbors += std::abs(places[i] - places[i - 1]) == 1;
  EXPECT_LT(neighbors, 12);  // 2 on average
}

}  // namespace
}  // namespace strata
