// SPDX-License-Identifier: MIT
#include "sharding/communication/tag_layout.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace strata::sharding {
namespace {

constexpr int kUcx = (1 << 23) - 1;

TEST(TagLayout, StaysBelowTheHighestTag) {
  for (const int highest : {std::numeric_limits<int>::max(), kUcx, kUcx + 1, 40'000, TagLayout::kLeastHighestTag}) {
    const TagLayout tags(highest);
    const int64_t groups = tags.groups(), kinds = tags.kinds();
    EXPECT_LE(groups * (kinds + 1) - 1, highest);
    EXPECT_EQ(tags.tag(static_cast<int>(groups - 1), static_cast<unsigned>(kinds - 1)), groups * (kinds + 1) - 1);
    EXPECT_GT(2 * groups * (kinds + 1), highest) << "bits are left";
    EXPECT_GE(groups, 128);
    EXPECT_GE(kinds, 255);
    // No two messages have the same tag, and none has that of the watchdogs.
    EXPECT_EQ(tags.tag(0, 0), 1);
    EXPECT_GT(tags.tag(1, 0), tags.tag(0, static_cast<unsigned>(kinds - 1)));
  }
}

TEST(TagLayout, HasTwoThousandGroupsOverUcx) {
  EXPECT_EQ(TagLayout(kUcx).groups(), 2048);
  EXPECT_EQ(TagLayout(kUcx).kinds(), 4095u);
  EXPECT_EQ(TagLayout(std::numeric_limits<int>::max()).groups(), 2048);
  EXPECT_EQ(TagLayout(std::numeric_limits<int>::max()).kinds(), (1u << 20) - 1);
}

}  // namespace
}  // namespace strata::sharding
