// SPDX-License-Identifier: MIT
// Checks initial values: their distribution, and that every split of a parameter gives the same ones.
#include "modules/initialization.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace strata::modules {
namespace {

std::vector<float> values_of(const Parameter& parameter, uint64_t seed, int64_t offset, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  initialize_parameter(parameter, seed, /*layers=*/8, offset, count, values.data());
  return values;
}

const Parameter kMatrix{"blocks.0.mlp.up.weight", {200, 101}, Initialization::normal};
const Parameter kResidual{"blocks.0.mlp.down.weight", {200, 101}, Initialization::residual};

double deviation(const std::vector<float>& values) {
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * value;
  return std::sqrt(squares / static_cast<double>(values.size()));
}

TEST(Initialization, IsNormalWithTheDeviationOfItsKind) {
  const std::vector<float> values = values_of(kMatrix, 1, 0, 20200);
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  EXPECT_NEAR(mean, 0, 4 * 0.02 / std::sqrt(20200.0));
  EXPECT_NEAR(deviation(values), 0.02, 0.02 * 0.02);
  double fourth = 0;
  for (const float value : values) fourth += std::pow(value / 0.02, 4);
  EXPECT_NEAR(fourth / static_cast<double>(values.size()), 3, 0.2);  // the kurtosis of a normal distribution
  EXPECT_NEAR(deviation(values_of(kResidual, 1, 0, 20200)), 0.02 / std::sqrt(16.0), 0.02 * 0.02 / 4);
  const Parameter scaled_by_inputs{"patch_embedding.weight", {200, 101}, Initialization::scaled_by_inputs};
  EXPECT_NEAR(deviation(values_of(scaled_by_inputs, 1, 0, 20200)), 1 / std::sqrt(3 * 101.0),
              0.02 / std::sqrt(3 * 101.0));
}

TEST(Initialization, IsUniformUpToItsBound) {
  const std::vector<float> values =
      values_of({"layers.0.self.weight", {200, 101}, Initialization::uniform, 0.3}, 1, 0, 20200);
  EXPECT_NEAR(std::accumulate(values.begin(), values.end(), 0.0) / 20200, 0, 4 * 0.3 / std::sqrt(3 * 20200.0));
  EXPECT_NEAR(deviation(values), 0.3 / std::sqrt(3.0), 0.005);
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  EXPECT_GE(*least, -0.3f);
  EXPECT_LE(*most, 0.3f);
  EXPECT_LT(*least, -0.299f);
  EXPECT_GT(*most, 0.299f);
}

TEST(Initialization, OfAPieceIsThatPieceOfTheWhole) {
  const std::vector<float> whole = values_of(kMatrix, 7, 0, 20200);
  for (const int64_t offset : {0, 1, 2, 3, 4, 5, 101, 6733, 20199}) {
    const std::vector<float> piece = values_of(kMatrix, 7, offset, 20200 - offset);
    EXPECT_TRUE(std::equal(piece.begin(), piece.end(), whole.begin() + offset)) << offset;
  }
}

TEST(Initialization, DependsOnSeedAndName) {
  Parameter other = kMatrix;
  other.name = "blocks.1.mlp.up.weight";
  EXPECT_NE(values_of(kMatrix, 1, 0, 8), values_of(kMatrix, 2, 0, 8));
  EXPECT_NE(values_of(kMatrix, 1, 0, 8), values_of(other, 1, 0, 8));
  EXPECT_EQ(values_of(kMatrix, 1, 0, 8), values_of(kMatrix, 1, 0, 8));
}

TEST(Initialization, OfVectors) {
  EXPECT_EQ(values_of({"scale.weight", {3}, Initialization::constant, 0.25}, 1, 0, 3), std::vector<float>(3, 0.25f));
  EXPECT_EQ(values_of({"norm.weight", {3}, Initialization::ones}, 1, 0, 3), std::vector<float>(3, 1.0f));
  EXPECT_EQ(values_of({"norm.bias", {3}, Initialization::zeros}, 1, 0, 3), std::vector<float>(3, 0.0f));
}

}  // namespace
}  // namespace strata::modules
