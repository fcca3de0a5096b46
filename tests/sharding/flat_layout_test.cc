// SPDX-License-Identifier: MIT
#include "sharding/parameters/flat_layout.h"

#include <gtest/gtest.h>

#include "base/errors.h"

namespace strata::sharding {
namespace {

const std::vector<FlatParameter> kParameters = {
    {"norm.weight", {7}, false}, {"a.weight", {5, 13}, true}, {"a.bias", {5}, false}, {"b.weight", {3, 3}, true}};

TEST(FlatLayout, DecayedFirstAlignedOnlyTheEndPadded) {
  const FlatLayout layout(kParameters, 3);
  ASSERT_EQ(layout.entries().size(), 4u);
  EXPECT_EQ(layout.entries()[0].name, "a.weight");
  EXPECT_EQ(layout.entries()[0].elements, 65);
  EXPECT_EQ(layout.entries()[1].name, "b.weight");
  EXPECT_EQ(layout.entries()[1].offset, 128);
  EXPECT_EQ(layout.entries()[2].name, "norm.weight");
  EXPECT_EQ(layout.entries()[2].offset, 192);
  EXPECT_EQ(layout.entries()[3].offset, 256);
  EXPECT_EQ(layout.elements(), 384);  // 320 are used; 384 is the next multiple of 64 x 3
  EXPECT_EQ(layout.shard_elements(), 128);
  EXPECT_EQ(layout.shard_begin(2), 256);
}

TEST(FlatLayout, OffsetsDoNotDependOnRanks) {
  const FlatLayout one(kParameters, 1);
  for (int64_t ranks : {2, 3, 4, 7, 64}) {
    const FlatLayout many(kParameters, ranks);
    EXPECT_EQ(many.elements() % (64 * ranks), 0);
    EXPECT_GE(many.elements(), one.elements());
    EXPECT_LT(many.elements() - one.elements(), 64 * ranks);
    for (size_t i = 0; i < one.entries().size(); ++i) EXPECT_EQ(many.entries()[i].offset, one.entries()[i].offset);
  }
}

TEST(FlatLayout, PartsOfEachShardWithAndWithoutDecay) {
  using Parts = std::vector<FlatLayout::ShardPart>;
  const FlatLayout layout(kParameters, 3);
  EXPECT_EQ(layout.parts_of_shard(0), (Parts{{0, 128, true}}));
  EXPECT_EQ(layout.parts_of_shard(1), (Parts{{0, 64, true}, {64, 64, false}}));
  EXPECT_EQ(layout.parts_of_shard(2), (Parts{{0, 128, false}}));
  EXPECT_EQ(FlatLayout(kParameters, 1).parts_of_shard(0), (Parts{{0, 192, true}, {192, 128, false}}));
}

TEST(FlatLayout, ALayoutWithoutParametersHasNoParts) { EXPECT_TRUE(FlatLayout({}, 2).parts_of_shard(1).empty()); }

TEST(FlatLayout, RefusesNoRanks) { EXPECT_THROW(FlatLayout(kParameters, 0), Error); }

}  // namespace
}  // namespace strata::sharding
