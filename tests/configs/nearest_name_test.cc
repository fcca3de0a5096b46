// SPDX-License-Identifier: MIT
#include "configs/nearest_name.h"

#include <gtest/gtest.h>

#include <vector>

namespace strata::configs {
namespace {

TEST(NearestName, CountsInsertedDeletedReplacedAndSwappedLetters) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("abc", ""), 3);
  EXPECT_EQ(edit_distance("steps", "stpes"), 1);
  EXPECT_EQ(edit_distance("steps", "step"), 1);
  EXPECT_EQ(edit_distance("steps", "stteps"), 1);
  EXPECT_EQ(edit_distance("steps", "STEPS"), 0);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
}

TEST(NearestName, TheFirstOfEqualsAndNothingFar) {
  const std::vector<std::string> names = {"train", "brain", "validation"};
  EXPECT_EQ(nearest_name("rain", names), "train");
  EXPECT_EQ(nearest_name("valdiaton", names), "validation");
  EXPECT_EQ(nearest_name("seed", names), "");
  EXPECT_EQ(nearest_name(std::string(1 << 20, 'x'), names), "");
}

}  // namespace
}  // namespace strata::configs
