// SPDX-License-Identifier: MIT
// Checks when an update is skipped, and by what it multiplies the gradients, against values that were computed by hand.
#include "trainer/step/update_decision.h"

#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <limits>
#include <utility>
#include <vector>

namespace strata::trainer {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNoClip = 0;
constexpr StepItems kItems = {.number = 8}, kSomeCount = {.number = 8, .may_not_count = true};
constexpr StepItems kSamples = {.number = 8, .may_not_count = true, .may_be_bad = true};

Tensor sums_of(double loss, double squares, double counted = 0) {
  return at::tensor(std::vector<double>{loss, squares, 0, counted}, at::kFloat);
}

double value(const Tensor& number) { return number.item<double>(); }

TEST(UpdateDecision, ClipsTheNorm) {
  UpdateDecider decider(1.5, OnNonfinite::stop, at::kCPU);
  const UpdateDecision large = decider.decide(sums_of(2, 9), kItems, nullptr),
                       small = decider.decide(sums_of(2, 1), kItems, nullptr);
  EXPECT_EQ(value(large.loss), 2);
  EXPECT_EQ(value(large.gradient_norm), 3);
  EXPECT_EQ(value(large.unusable), 0);
  EXPECT_EQ(value(large.skipped), 0);
  EXPECT_EQ(value(large.overflowed), 0);
  EXPECT_NEAR(value(large.scale), 0.5, 1e-6);
  EXPECT_EQ(value(small.scale), 1);
  UpdateDecider without(kNoClip, OnNonfinite::stop, at::kCPU);
  EXPECT_EQ(value(without.decide(sums_of(2, 9), kItems, nullptr).scale), 1);
}

TEST(UpdateDecision, SkipsWhatIsNotFinite) {
  for (const auto& [loss, squares] : {std::pair{kNan, 1.0}, {kInfinity, 1.0}, {1.0, kInfinity}, {1.0, kNan}}) {
    UpdateDecider decider(kNoClip, OnNonfinite::skip, at::kCPU);
    EXPECT_EQ(value(decider.decide(sums_of(loss, squares), kItems, nullptr).skipped), 1);
    EXPECT_EQ(value(decider.halted()), 0);
    EXPECT_EQ(value(decider.decide(sums_of(1, 1), kItems, nullptr).skipped), 0);
  }
}

TEST(UpdateDecision, SkipsAllAfterOneThatHaltsTheRun) {
  for (const OnNonfinite action : {OnNonfinite::stop, OnNonfinite::rollback}) {
    UpdateDecider decider(kNoClip, action, at::kCPU);
    EXPECT_EQ(value(decider.decide(sums_of(1, 1), kItems, nullptr).skipped), 0);
    EXPECT_EQ(value(decider.decide(sums_of(1, kNan), kItems, nullptr).skipped), 1);
    EXPECT_EQ(value(decider.halted()), 1);
    EXPECT_EQ(value(decider.decide(sums_of(1, 1), kItems, nullptr).skipped), 1);
  }
}

// 2 of 8 items count, so the means over those are four times the means over all.
TEST(UpdateDecision, TakesMeansOverTheItemsThatCount) {
  UpdateDecider decider(6, OnNonfinite::stop, at::kCPU);
  const UpdateDecision decided = decider.decide(sums_of(1, 9, /*counted=*/2), kSomeCount, nullptr);
  EXPECT_EQ(value(decided.loss), 4);
  EXPECT_EQ(value(decided.gradient_norm), 12);
  EXPECT_EQ(value(decided.unusable), 0);
  EXPECT_NEAR(value(decided.scale), 4 * 0.5, 1e-6);
  UpdateDecider sample_decider(kNoClip, OnNonfinite::stop, at::kCPU);
  EXPECT_EQ(value(sample_decider.decide(sums_of(1, 9, /*counted=*/2), kSamples, nullptr).unusable), 6);
  const UpdateDecision none = sample_decider.decide(sums_of(0, 0, /*counted=*/0), kSamples, nullptr);
  EXPECT_EQ(value(none.unusable), 8);
  EXPECT_EQ(value(none.loss), 0);
  EXPECT_EQ(value(none.skipped), 0);
}

TEST(UpdateDecision, UndoesTheLossScale) {
  LossScale scale({.initial = 1024}, at::kCPU);
  UpdateDecider decider(1.5, OnNonfinite::stop, at::kCPU);
  EXPECT_NEAR(value(decider.decide(sums_of(2, 9), kItems, &scale).scale), 0.5 / 1024, 1e-9);
  const UpdateDecision overflow = decider.decide(sums_of(2, kInfinity), kItems, &scale);
  EXPECT_EQ(value(overflow.skipped), 1);
  EXPECT_EQ(value(overflow.overflowed), 1);
  EXPECT_EQ(value(decider.halted()), 0) << "the scale shrinks, and the run goes on";
  const UpdateDecision lost = decider.decide(sums_of(kNan, kInfinity), kItems, &scale);
  EXPECT_EQ(value(lost.overflowed), 0);
  EXPECT_EQ(value(decider.halted()), 1);
}

}  // namespace
}  // namespace strata::trainer
