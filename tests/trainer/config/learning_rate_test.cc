// SPDX-License-Identifier: MIT
// Checks schedules at the steps whose rates follow directly from the definition.
#include "trainer/step/learning_rate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace strata::trainer {
namespace {

constexpr double kPeak = 4e-3;

double at(const ScheduleConfig& schedule, int64_t step) { return learning_rate(kPeak, schedule, 1200, step); }

TEST(LearningRate, RisesLinearlyToThePeak) {
  const ScheduleConfig schedule{CosineSchedule{0.1}, 50};
  EXPECT_DOUBLE_EQ(at(schedule, 1), kPeak / 50);
  EXPECT_DOUBLE_EQ(at(schedule, 25), kPeak / 2);
  EXPECT_DOUBLE_EQ(at(schedule, 50), kPeak);
}

TEST(LearningRate, CosineEndsAtTheFinalShare) {
  const ScheduleConfig schedule{CosineSchedule{0.1}, 50};
  EXPECT_NEAR(at(schedule, 1200), 0.1 * kPeak, 1e-15);
  EXPECT_NEAR(at(schedule, 625), 0.55 * kPeak, 1e-15);
  EXPECT_NEAR(at(schedule, 50 + 115), kPeak * (0.1 + 0.45 * (1 + std::cos(std::numbers::pi * 0.1))), 1e-15);
}

TEST(LearningRate, LinearAndConstant) {
  EXPECT_NEAR(at({LinearSchedule{0.2}, 0}, 600), 0.6 * kPeak, 1e-15);
  EXPECT_NEAR(at({LinearSchedule{0.2}, 0}, 1200), 0.2 * kPeak, 1e-15);
  EXPECT_DOUBLE_EQ(at({ConstantSchedule{}, 10}, 1200), kPeak);
  EXPECT_DOUBLE_EQ(at({ConstantSchedule{}, 10}, 5), kPeak / 2);
}

TEST(LearningRate, WarmupStableDecay) {
  const ScheduleConfig schedule{WsdSchedule{0.0, 200}, 100};
  EXPECT_NEAR(at(schedule, 100), kPeak, 1e-15);
  EXPECT_NEAR(at(schedule, 1000), kPeak, 1e-15);
  EXPECT_NEAR(at(schedule, 1100), kPeak / 2, 1e-15);
  EXPECT_NEAR(at(schedule, 1200), 0, 1e-15);
}

TEST(LearningRate, WarmupMayLastForAllSteps) { EXPECT_DOUBLE_EQ(at({CosineSchedule{0.1}, 1200}, 1200), kPeak); }

}  // namespace
}  // namespace strata::trainer
