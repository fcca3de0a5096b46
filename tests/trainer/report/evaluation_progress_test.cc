// SPDX-License-Identifier: MIT
// Checks when a long evaluation says how far it is, and what.
#include "trainer/report/evaluation_progress.h"

#include <gtest/gtest.h>

namespace strata::trainer {
namespace {

TEST(EvaluationProgress, IsToldEachHalfMinuteWithTheTimeThatIsLeft) {
  EvaluationProgress progress(/*samples=*/10'000, /*begin=*/100);
  EXPECT_EQ(progress.add(1000, 129), std::nullopt);
  EXPECT_EQ(progress.add(1000, 131).value_or(""), "evaluation: 2,000 of 10,000 samples, about 124 s left");
  EXPECT_EQ(progress.add(1000, 160), std::nullopt);
  EXPECT_EQ(progress.add(1000, 161).value_or(""), "evaluation: 4,000 of 10,000 samples, about 91 s left");
}

TEST(EvaluationProgress, IsNotToldAtTheEnd) {
  EvaluationProgress progress(/*samples=*/10, /*begin=*/0);
  EXPECT_EQ(progress.add(16, 1000), std::nullopt);  // the last round may be longer than what is left
}

}  // namespace
}  // namespace strata::trainer
