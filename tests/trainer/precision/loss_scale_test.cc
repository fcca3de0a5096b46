// SPDX-License-Identifier: MIT
// Checks the loss scale of 10,000 steps with overflows at random against the rule written as a loop, and when it stays.
#include "trainer/step/loss_scale.h"

#include <ATen/ops/scalar_tensor.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace strata::trainer {
namespace {

constexpr LossScaling kConfig = {.initial = 4096, .growth = 4, .backoff = 0.5, .growth_interval = 7};

Tensor number(double value) { return at::scalar_tensor(value, at::kFloat); }

void step(LossScale& scale, bool overflowed) { scale.update(number(overflowed), number(overflowed)); }

TEST(LossScale, GrowsAndBacksOff) {
  LossScale scale(kConfig, at::kCPU);
  std::mt19937 random(1);
  double expected = kConfig.initial;
  int64_t finite = 0;
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_EQ(scale.value().item<double>(), expected) << i;
    const bool skipped = random() % 10 < (expected > kConfig.initial ? 5 : 1);  // so it stays in the range of float
    step(scale, skipped);
    if (skipped) expected *= kConfig.backoff;
    finite = skipped ? 0 : finite + 1;
    if (finite < kConfig.growth_interval) continue;
    expected *= kConfig.growth;
    finite = 0;
  }
}

// docs/precision.md names this interval for a constant scale.
TEST(LossScale, IsConstantWithALongInterval) {
  LossScale scale({.initial = 1024, .growth_interval = 1'000'000'000}, at::kCPU);
  for (const int32_t finite_steps : {0, 1'000'000, 999'999'989}) {
    scale.restore({.scale = 1024, .finite_steps = finite_steps});
    for (int i = 0; i < 10; ++i) step(scale, /*overflowed=*/false);
    EXPECT_EQ(scale.state().scale, 1024);
    EXPECT_EQ(scale.state().finite_steps, finite_steps + 10);
  }
  step(scale, /*overflowed=*/true);
  for (int i = 0; i < 1000; ++i) step(scale, /*overflowed=*/false);
  EXPECT_EQ(scale.state().scale, 512);
}

TEST(LossScale, StaysBelowInfinity) {
  LossScale scale(kConfig, at::kCPU);
  scale.restore({.scale = 0x1p126, .finite_steps = 6});
  step(scale, /*overflowed=*/false);
  EXPECT_EQ(scale.state().scale, 0x1p126);
}

TEST(LossScale, StaysIfAnotherCauseSkipsTheUpdate) {
  LossScale scale(kConfig, at::kCPU);
  step(scale, false);
  scale.update(/*overflowed=*/number(0), /*skipped=*/number(1));
  EXPECT_EQ(scale.state().scale, kConfig.initial);
  EXPECT_EQ(scale.state().finite_steps, 1);
}

TEST(LossScale, GoesOnFromItsState) {
  LossScale scale(kConfig, at::kCPU), other(kConfig, at::kCPU);
  for (int i = 0; i < 11; ++i) step(scale, i == 2);
  other.restore(scale.state());
  for (int i = 0; i < 11; ++i) {
    step(scale, i == 6);
    step(other, i == 6);
    EXPECT_EQ(other.state().scale, scale.state().scale);
    EXPECT_EQ(other.state().finite_steps, scale.state().finite_steps);
  }
}

TEST(LossScale, IsTheCauseOnlyAboveOneAndWithAFiniteLoss) {
  LossScale scale(kConfig, at::kCPU);
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(scale.overflowed(number(3), number(1)).item<float>(), 1);
  EXPECT_EQ(scale.overflowed(number(3), number(0)).item<float>(), 0);
  EXPECT_EQ(scale.overflowed(number(infinity), number(1)).item<float>(), 0);
  scale.restore({.scale = 1, .finite_steps = 0});
  EXPECT_EQ(scale.overflowed(number(3), number(1)).item<float>(), 0);
}

}  // namespace
}  // namespace strata::trainer
