// SPDX-License-Identifier: MIT
// Which layers compute again for a given memory: by hand for four layers, and against all ways for random costs.
#include "trainer/memory/layer_costs.h"

#include <gtest/gtest.h>

#include <random>

namespace strata::trainer {
namespace {

constexpr Recompute kNone = Recompute::none, kSome = Recompute::selective, kFull = Recompute::full;

StepCosts four_layers() {
  StepCosts costs{.standing = 1000, .stream = 10, .head = 50, .layers = {}};
  costs.layers.resize(4, {LayerCost{100, 30, 1.0}, LayerCost{60, 40, 1.2}, LayerCost{20, 120, 1.5}});
  return costs;
}

TEST(LayerCosts, MostBytesByHand) {
  const StepCosts costs = four_layers();
  // 1000 + 10 of the embedding + 4 x 100, less three branches that were added up, + the head.
  EXPECT_EQ(most_bytes(costs, {kNone, kNone, kNone, kNone}), 1010 + 400 - 30 + 50 + 10);
  // At the backward of the last layer: all inputs of layers, the gradient, and what a whole layer needs.
  EXPECT_EQ(most_bytes(costs, {kFull, kFull, kFull, kFull}), 1010 + 3 * 20 + 10 + 120);
  // The second layer lets go what the first handed on, 20.
  EXPECT_EQ(most_bytes(costs, {kFull, kSome, kNone, kNone}), 1010 + 20 + 60 + 200 - 20 - 10 - 10 + 50 + 10);
}

TEST(LayerCosts, TakesTheLeastTimeThatFits) {
  const StepCosts costs = four_layers();
  EXPECT_EQ(cheapest_that_fits(costs, 1440), (LayerChoice{kNone, kNone, kNone, kNone}));
  EXPECT_EQ(cheapest_that_fits(costs, 1439), (LayerChoice{kSome, kNone, kNone, kNone}));
  EXPECT_EQ(cheapest_that_fits(costs, 1280), (LayerChoice{kSome, kSome, kSome, kSome}));
  // Less than with kFull for the last layer too, whose backward comes when the inputs of all others are still there.
  EXPECT_EQ(cheapest_that_fits(costs, 1180), (LayerChoice{kFull, kFull, kFull, kSome}));
  EXPECT_EQ(least_bytes(costs), 1180);
  EXPECT_EQ(cheapest_that_fits(costs, 1179), std::nullopt);
}

// Where ways alternate, a layer that computes all again finds its residual kept by the one before: worth no more than
// the time of one layer.
TEST(LayerCosts, NoOtherWayThatFitsIsFasterByMoreThanALayer) {
  std::mt19937 random(7);
  const auto number = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  for (int round = 0; round < 200; ++round) {
    constexpr size_t kLayers = 5;
    StepCosts costs{.standing = 0, .stream = 10, .head = number(0, 300), .layers = {}};
    const LayerCost none{number(140, 200), number(20, 60), 1};
    const LayerCost some{number(90, 130), none.backward + number(0, 30), 1 + 0.01 * static_cast<double>(number(1, 20))};
    const LayerCost full{20, none.kept + none.backward, 1.4};
    costs.layers.resize(kLayers, {none, some, full});
    const int64_t budget =
        number(most_bytes(costs, LayerChoice(kLayers, kFull)), most_bytes(costs, LayerChoice(kLayers, kNone)) + 10);
    const auto chosen = cheapest_that_fits(costs, budget);
    ASSERT_TRUE(chosen.has_value());
    EXPECT_LE(most_bytes(costs, *chosen), budget);
    const auto time = [&](const LayerChoice& choice) {
      double sum = 0;
      for (const Recompute how : choice) sum += costs.layers[0][static_cast<size_t>(how)].milliseconds;
      return sum;
    };
    for (int code = 0; code < 243; ++code) {
      LayerChoice other;
      for (int rest = code, i = 0; i < 5; ++i, rest /= 3) other.push_back(static_cast<Recompute>(rest % 3));
      if (most_bytes(costs, other) > budget) continue;
      EXPECT_GT(time(other), time(*chosen) - 0.4) << "round " << round << " code " << code;
    }
  }
}

TEST(LayerCosts, AreWrittenAsAConfigurationAndAsText) {
  const auto config = [](const LayerChoice& choice) { return as_config(choice); };
  const GradientCheckpointing same = config({kSome, kSome});
  EXPECT_EQ(std::get<Recompute>(same.layers), kSome);
  const LayerChoice mixed = {kFull, kFull, kSome, kNone, kNone};
  const GradientCheckpointing lines = config(mixed);
  for (size_t i = 0; i < mixed.size(); ++i) EXPECT_EQ(lines.of(static_cast<int64_t>(i)), mixed[i]);
  EXPECT_EQ(std::get<std::vector<GradientCheckpointing::Layers>>(lines.layers).size(), 2u);
  const StepCosts costs = four_layers();
  EXPECT_EQ(StepCosts::from_text(costs.text()).text(), costs.text());
  EXPECT_THROW(StepCosts::from_text("1 2 3 4 5"), std::exception);
}

}  // namespace
}  // namespace strata::trainer
