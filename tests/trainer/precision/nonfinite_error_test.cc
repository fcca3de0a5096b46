// SPDX-License-Identifier: MIT
// What a run says that a number which is not finite ends: where it is, and what to set.
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "base/errors.h"
#include "trainer/nonfinite_gradient.h"

namespace strata::trainer {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
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
      .step = 7, .gradient_norm = kInfinity, .of_ranks = {"", "rank 1: a"}, .of_sums = {"rank 0: b", ""}};
  EXPECT_TRUE(says(step, kFloat32, "step 7: a gradient is not finite; the update was left out. First, in the order"));
  EXPECT_TRUE(says(step, kFloat32, "\n  rank 1: a\nlower optimizer.learning_rate"));
  EXPECT_FALSE(says(step, kFloat32, "rank 0: b"));
  EXPECT_FALSE(says(step, kFloat32, "float16"));
  EXPECT_TRUE(says(step, kFloat16, "or compute in bfloat16: "));
  EXPECT_TRUE(says(step, kSumsInFloat16, "or compute in bfloat16 and reduce in float32: "));
}

TEST(NonfiniteError, NamesSumsIfTheGradientsOfRanksAreFinite) {
  const NonfiniteStep step = {.step = 7, .gradient_norm = kInfinity, .of_ranks = {"", ""}, .of_sums = {"b", ""}};
  EXPECT_TRUE(says(step, kSumsInFloat16, "(precision.reduce: float16) are not:\n  b\n"));
  EXPECT_TRUE(says(step, kSumsInFloat16, "set precision.reduce to float32"));
  EXPECT_TRUE(says(step, kFloat32, "(precision.reduce: float32) are not:\n  b\nlower optimizer.learning_rate"));
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
