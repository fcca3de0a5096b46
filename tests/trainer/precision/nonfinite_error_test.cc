// SPDX-License-Identifier: MIT
// The error of a run that ends because a number is not finite.
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "base/errors.h"
#include "trainer/step/nonfinite_gradient.h"

namespace strata::trainer {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
const PrecisionConfig kFloat32 = {}, kFloat16 = {.compute = FloatType::float16},
                      kSumsInFloat16 = {.compute = FloatType::float16, .reduce = FloatType::float16};

// True if the message has the text.
testing::AssertionResult says(const NonfiniteStep& step, const PrecisionConfig& precision, const std::string& text) {
  const Error error = nonfinite_error(step, precision);
  EXPECT_EQ(error.code(), ExitCode::numerics);
  const std::string message = error.what();
  if (message.find(text) != message.npos) return testing::AssertionSuccess() << message;
  return testing::AssertionFailure() << message;
}

TEST(NonfiniteError, NamesGradientsOfRanksRatherThanTheirSums) {
  const NonfiniteStep step = {
      .step = 7, .gradient_norm = kInfinity, .rank_findings = {"", "rank 1: a"}, .sum_findings = {"rank 0: b", ""}};
  EXPECT_TRUE(says(step, kFloat32, "step 7: a gradient is not finite; the update was left out. First, in the order"));
  EXPECT_TRUE(says(step, kFloat32, "\n  rank 1: a\nlower optimizer.learning_rate"));
  EXPECT_FALSE(says(step, kFloat32, "rank 0: b"));
  EXPECT_FALSE(says(step, kFloat32, "float16"));
  EXPECT_TRUE(says(step, kFloat16, "or compute in bfloat16: "));
  EXPECT_TRUE(says(step, kSumsInFloat16, "or compute in bfloat16 and reduce in float32: "));
}

TEST(NonfiniteError, NamesSumsIfTheGradientsOfRanksAreFinite) {
  const std::string wide = "rank 0: b (group head), summed in float32",
                    half = "rank 1: c (group root), summed in float16";
  NonfiniteStep step = {.step = 7, .gradient_norm = kInfinity, .rank_findings = {"", ""}, .sum_findings = {wide, half}};
  EXPECT_TRUE(
      says(step, kSumsInFloat16, "their sums over ranks are not:\n  " + wide + "\n  " + half + "\na sum above"));
  EXPECT_TRUE(says(step, kSumsInFloat16, "the loss scale is already 1 or less: set precision.reduce to float32"));
  // Some groups of this run are reduced in float16, and no sum of theirs is named.
  step.sum_findings = {wide, ""};
  EXPECT_TRUE(says(step, kSumsInFloat16, wide + "\nlower optimizer.learning_rate, or set run.on_nonfinite to skip"));
  EXPECT_FALSE(says(step, kSumsInFloat16, "float16"));
  EXPECT_FALSE(says(step, kSumsInFloat16, "precision.reduce"));
}

TEST(NonfiniteError, NamesTheLossBeforeGradients) {
  NonfiniteStep step = {.step = 7, .loss = kNan, .gradient_norm = kNan, .rank_findings = {"", ""}};
  step.sum_findings = {"rank 0: b, summed in float16", ""};
  EXPECT_TRUE(
      says(step, kSumsInFloat16, "step 7: the loss is nan; the update was left out. The gradients of each rank"));
  EXPECT_TRUE(says(step, kSumsInFloat16, "summed in float16\nlower optimizer.learning_rate"));
  EXPECT_FALSE(says(step, kSumsInFloat16, "set precision.reduce to float32"));
  step.rank_findings = {"", "rank 1: a"};
  EXPECT_TRUE(says(step, kFloat16,
                   "step 7: the loss is nan; the update was left out. Gradients are not finite either. First, in the "
                   "order of the backward, on each rank that has one:\n  rank 1: a\nlower"));
  EXPECT_FALSE(says(step, kFloat16, "rank 0: b"));
}

TEST(NonfiniteError, SaysIfOnlyTheLossOrTheNormIsNotFinite) {
  const NonfiniteStep loss = {.step = 7, .loss = kInfinity, .gradient_norm = kInfinity};
  EXPECT_TRUE(
      says(loss, kFloat32, "step 7: the loss is inf, though every gradient is finite; the update was left out"));
  const NonfiniteStep norm = {.step = 7, .gradient_norm = kInfinity, .after_rollback = true};
  EXPECT_TRUE(says(norm, kFloat32, "the gradient norm is inf, also after a rollback, though every gradient is finite"));
}

TEST(NonfiniteError, SaysIfTheCauseDoesNotRepeat) {
  EXPECT_TRUE(
      says({.step = 7}, kSumsInFloat16, "the cause does not repeat, and run.on_nonfinite=rollback would go on"));
  EXPECT_FALSE(says({.step = 7, .after_rollback = true}, kFloat32, "run.on_nonfinite=rollback"));
}

}  // namespace
}  // namespace strata::trainer
