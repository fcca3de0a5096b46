// SPDX-License-Identifier: MIT
#include "tools/sensitivity/kept_layers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace strata::tools {
namespace {

using Names = std::vector<std::string>;

// The growth of all layers together is the sum of their own.
struct Sums {
  std::vector<Sensitivity> sensitivities;
  int measured = 0;

  KeptLayers search(double limit) {
    return layers_to_keep(sensitivities, limit, [this](const Names& keep) {
      ++measured;
      double sum = 0;
      for (const auto& [layer, growth] : sensitivities) {
        if (std::ranges::find(keep, layer) == keep.end()) sum += growth;
      }
      return sum;
    });
  }
};

TEST(KeptLayers, AreTheFewestOfTheMostSensitive) {
  Sums sums{{{"a", 1}, {"b", 8}, {"c", -1}, {"d", 4}, {"e", 2}}};
  EXPECT_EQ(sums.search(14).keep, Names());
  EXPECT_EQ(sums.search(13.9).keep, Names({"b"}));
  EXPECT_EQ(sums.search(6).keep, Names({"b"}));
  const KeptLayers two = sums.search(2.5);
  EXPECT_EQ(two.keep, Names({"b", "d"}));
  EXPECT_EQ(two.growth, 2);
  EXPECT_EQ(sums.search(-1).keep, Names({"b", "d", "e", "a"}));
}

TEST(KeptLayers, AreAllIfNothingElseHelps) {
  Sums sums{{{"a", 3}, {"b", 2}, {"c", 1}}};
  const KeptLayers all = sums.search(0);
  EXPECT_EQ(all.keep, Names({"a", "b", "c"}));
  EXPECT_EQ(all.growth, 0);
}

TEST(KeptLayers, AreFoundByFewMeasurements) {
  Sums sums;
  for (int i = 0; i < 100; ++i) sums.sensitivities.push_back({std::to_string(i), 1});
  EXPECT_EQ(sums.search(40.5).keep.size(), 60);
  EXPECT_LE(sums.measured, 8);
}

TEST(KeptLayers, BeginWithThoseThatMakeNoNumber) {
  const KeptLayers kept = layers_to_keep({{"a", 3}, {"b", NAN}, {"c", 1}}, 5, [](const Names& keep) {
    return std::ranges::find(keep, "b") == keep.end() ? NAN : 4.0;
  });
  EXPECT_EQ(kept.keep, Names({"b"}));
}

}  // namespace
}  // namespace strata::tools
