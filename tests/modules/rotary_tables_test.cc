// SPDX-License-Identifier: MIT
#include "modules/rotary_tables.h"

#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>

namespace strata::modules {
namespace {

TEST(RotaryTables, HaveARowForEachPositionOfPackedDocuments) {
  TransformerConfig config;
  config.layers = 1;
  config.width = 32;
  config.heads = 4;
  const RotaryTables tables = rotary_tables(config, /*length=*/4);
  const Tensor positions = at::tensor({0, 1, 0, 0, 1, 2, 3, 0}, at::kLong).view({2, 4});
  const RotaryTables rows = rows_of(tables, positions);
  ASSERT_EQ(rows.cosine.sizes(), (at::IntArrayRef{1, 8, 4}));
  for (int64_t i = 0; i < 8; ++i) {
    const int64_t position = positions.flatten()[i].item<int64_t>();
    EXPECT_TRUE(rows.cosine[0][i].equal(tables.cosine[0][position])) << i;
    EXPECT_TRUE(rows.sine[0][i].equal(tables.sine[0][position])) << i;
  }
  EXPECT_FALSE(rows.sine[0][1].equal(rows.sine[0][0]));
}

TEST(RotaryTables, HaveATableForEachKindOfLayers) {
  TransformerConfig config;
  config.layers = 4;
  config.width = 32;
  config.heads = 4;
  config.rotary_base = 1e6;
  config.rotary_scaling = {.type = RotaryScalingType::linear, .factor = 8};
  config.layer_overrides = {{.only = {1, 3, 2}, .rotary_base = 100}};
  const RotaryTables tables = rotary_tables(config, /*length=*/3);
  ASSERT_EQ(tables.cosine.sizes(), (at::IntArrayRef{2, 3, 4}));
  for (int64_t t = 0; t < 3; ++t) {
    for (int64_t i = 0; i < 4; ++i) {
      const double exponent = -2.0 * static_cast<double>(i) / 8;
      EXPECT_NEAR(tables.of(0).sine[t][i].item<double>(),
                  std::sin(static_cast<double>(t) * std::pow(1e6, exponent) / 8), 1e-7);
      EXPECT_NEAR(tables.of(1).sine[t][i].item<double>(), std::sin(static_cast<double>(t) * std::pow(100, exponent)),
                  1e-7);
    }
  }
}

// By hand: 8 turns in 512 positions have the wavelength 64, 2 turns 256. With base 10000 and heads of 16 these are the
// pairs 2.02 and 3.22, so the band goes from pair 2 to pair 4.
TEST(RotaryTables, YarnScalesABandOfPairs) {
  TransformerConfig config;
  config.layers = 1;
  config.width = 16;
  config.heads = 1;
  config.rotary_scaling = {
      .type = RotaryScalingType::yarn, .factor = 4, .original_sequence = 512, .beta_fast = 8, .beta_slow = 2};
  const double factor = 0.1 * std::log(4.0) + 1;
  const RotaryTables tables = rotary_tables(config, /*length=*/2);
  EXPECT_NEAR(tables.of(0).cosine[0][0].item<double>(), factor, 1e-6);
  const double scaled_share[] = {0, 0, 0, 0.5, 1, 1, 1, 1};
  for (int64_t i = 0; i < 8; ++i) {
    const double frequency = std::pow(1e4, -static_cast<double>(i) / 8);
    const double expected = frequency * (1 - scaled_share[i] + scaled_share[i] / 4);
    EXPECT_NEAR(tables.of(0).sine[1][i].item<double>(), factor * std::sin(expected), 1e-7) << i;
  }
  config.rotary_scaling.attention_factor = 1;
  EXPECT_NEAR(rotary_tables(config, 1).of(0).cosine[0][0].item<double>(), 1, 1e-7);
}

// Yarn has a factor of cosines and sines, a band of pairs and a base, all of which count rotated features only.
TEST(RotaryTables, AFractionHasTheTableOfNarrowerHeadsAndLeavesTheRest) {
  TransformerConfig config;
  config.layers = 2;
  config.heads = 1;
  config.rotary_scaling = {
      .type = RotaryScalingType::yarn, .factor = 4, .original_sequence = 512, .beta_fast = 8, .beta_slow = 2};
  config.layer_overrides = {{.only = {1, 1}, .rotary_base = 100}};
  config.width = 12;
  const RotaryTables narrow = rotary_tables(config, /*length=*/5);
  config.width = 16;
  config.rotary_fraction = 0.75;
  const RotaryTables tables = rotary_tables(config, /*length=*/5);
  ASSERT_EQ(tables.cosine.sizes(), (at::IntArrayRef{2, 5, 8}));
  EXPECT_TRUE(tables.cosine.narrow(2, 0, 6).equal(narrow.cosine));
  EXPECT_TRUE(tables.sine.narrow(2, 0, 6).equal(narrow.sine));
  EXPECT_TRUE(tables.cosine.narrow(2, 6, 2).eq(1).all().item<bool>());
  EXPECT_TRUE(tables.sine.narrow(2, 6, 2).eq(0).all().item<bool>());
}

}  // namespace
}  // namespace strata::modules
