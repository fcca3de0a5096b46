// SPDX-License-Identifier: MIT
// Checks what is said about weights that do not fit a model, and how long that takes if nothing fits.
#include "trainer/checkpoint/weights_differences.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>

namespace strata::trainer {
namespace {

TEST(WeightsDifferences, AreNamedWithTheNearestNameOrBothShapes) {
  const Shapes stored = {{"a.bias", {4}}, {"b.weigth", {4, 2}}, {"c.weight", {4, 3}}};
  EXPECT_EQ(weights_differences(stored, stored), "");
  EXPECT_EQ(weights_differences(stored, {{"a.bias", {4}}, {"b.weight", {4, 2}}, {"c.weight", {4, 2}}}),
            "\n  b.weight: missing; did you mean 'b.weigth'?"
            "\n  c.weight: [4, 3] there, the model has [4, 2]"
            "\n  b.weigth: the model has no such parameter");
}

// To compare each missing name with each stored one would take hours.
TEST(WeightsDifferences, Of100000MissingNamesAreFoundInSeconds) {
  constexpr int kNames = 100'000;
  Shapes stored, parameters;
  for (int i = 0; i < kNames; ++i) {
    stored.emplace_back("model.layers." + std::to_string(i) + ".attention.weight", std::vector<int64_t>{2});
    parameters.emplace_back("transformer.blocks." + std::to_string(i) + ".attn.w", std::vector<int64_t>{2});
  }
  const auto begin = std::chrono::steady_clock::now();
  const std::string text = weights_differences(stored, parameters);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(taken.count(), 40);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 21);
  EXPECT_TRUE(text.ends_with("\n  and 199980 more")) << text;
}

}  // namespace
}  // namespace strata::trainer
