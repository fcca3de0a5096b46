// SPDX-License-Identifier: MIT
// Checks how texts are joined: none, one, empty ones, and texts that are made of other items.
#include "base/text/joined.h"

#include <gtest/gtest.h>

#include <map>
#include <ranges>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace strata {
namespace {

TEST(Joined, SeparatesTexts) {
  EXPECT_EQ(joined(std::vector<std::string>(), ", "), "");
  EXPECT_EQ(joined(std::vector<std::string>{"a"}, ", "), "a");
  EXPECT_EQ(joined(std::vector<std::string_view>{"a", "b", "c"}, ", "), "a, b, c");
  EXPECT_EQ(joined(std::set<std::string>{"b", "a"}, ""), "ab");
}

// An empty text has its place, also the first one.
TEST(Joined, KeepsEmptyTexts) {
  EXPECT_EQ(joined(std::vector<std::string>{"", "b"}, ","), ",b");
  EXPECT_EQ(joined(std::vector<std::string>{"a", "", "c", ""}, ","), "a,,c,");
}

TEST(Joined, MakesTextsOfItems) {
  const std::vector<int> numbers = {3, 1, 2};
  const auto text_of = [](int number) { return std::to_string(number); };
  EXPECT_EQ(joined(numbers, "; ", text_of), "3; 1; 2");
  EXPECT_EQ(joined(std::views::take(numbers, 2), "; ", text_of), "3; 1");
  EXPECT_EQ(joined(std::views::filter(numbers, [](int number) { return number > 1; }), "; ", text_of), "3; 2");
  const std::map<std::string, int> counts = {{"a", 1}, {"b", 2}};
  EXPECT_EQ(joined(counts, ", ", [&](const auto& count) { return count.first + "=" + text_of(count.second); }),
            "a=1, b=2");
}

}  // namespace
}  // namespace strata
