// SPDX-License-Identifier: MIT
#include "tests/chosen_file.h"

#include <gtest/gtest.h>

#include <string>

namespace strata::tests {
namespace {

class Nothing : public testing::Test {
  void TestBody() override {}
};

// The executable of this test has cases of four files.
[[maybe_unused]] const bool kRegistered = [] {
  for (const auto& [suite, file] :
       {std::pair("OfProduct", "tests/kernels/product_gpu_test.cc"),
        std::pair("OfProductTypes", "tests/kernels/product_gpu_test.cc"),
        std::pair("OfLevels", "tests/kernels/levels.cc"), std::pair("OfRanks", "tests/trainer/sums_test.cc")}) {
    testing::RegisterTest(suite, "Case", nullptr, nullptr, file, 1, []() -> testing::Test* { return new Nothing; });
  }
  return true;
}();

// Returns the filter that remains, and "none" if the executable is not to run.
std::string chosen(std::string_view path, const std::string& filter = "*") {
  const std::string before = GTEST_FLAG_GET(filter);
  GTEST_FLAG_SET(filter, filter);
  const bool is_there = choose_file(path);
  const std::string after = GTEST_FLAG_GET(filter);
  GTEST_FLAG_SET(filter, before);
  return is_there ? after : "none";
}

TEST(ChosenFile, IsThatOfTheName) {
  EXPECT_EQ(chosen("bin/product_gpu_test"), "OfProduct.*:OfProductTypes.*");
  EXPECT_EQ(chosen("levels_gpu_test"), "OfLevels.*");
  EXPECT_EQ(chosen("/archive/bin/sums_test_ranks"), "OfRanks.*");
  EXPECT_EQ(chosen("sums_test"), "OfRanks.*");
}

TEST(ChosenFile, IsNoneForAnotherName) {
  for (const char* path : {"bin/gpu_tests", "product_gpu_test/", "product", ""}) {
    EXPECT_EQ(chosen(path), "none") << path;
  }
}

TEST(ChosenFile, AFilterChoosesOfItsCases) {
  EXPECT_EQ(chosen("levels_gpu_test", "*Case"), "*Case-OfProduct.*:OfProductTypes.*:OfRanks.*:ChosenFile.*");
  EXPECT_EQ(chosen("levels_gpu_test", "*-*.Slow*"), "*-*.Slow*:OfProduct.*:OfProductTypes.*:OfRanks.*:ChosenFile.*");
}

}  // namespace
}  // namespace strata::tests
