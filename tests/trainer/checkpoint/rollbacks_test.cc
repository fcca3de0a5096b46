// SPDX-License-Identifier: MIT
// Checks for which steps a run goes back: once for each, and not for ever.
#include "trainer/checkpoint/rollbacks.h"

#include <gtest/gtest.h>

#include <string>

#include "base/errors.h"

namespace strata::trainer {
namespace {

TEST(Rollbacks, EachStepOnce) {
  Rollbacks rollbacks;
  EXPECT_FALSE(rollbacks.any());
  EXPECT_TRUE(rollbacks.start(12, /*has_checkpoint=*/true));
  EXPECT_TRUE(rollbacks.start(11, /*has_checkpoint=*/true));  // on the way to step 12
  EXPECT_TRUE(rollbacks.any());
  EXPECT_EQ(rollbacks.last_step(), 11);
  EXPECT_FALSE(rollbacks.start(12, /*has_checkpoint=*/true));
  EXPECT_EQ(rollbacks.last_step(), 11);
}

TEST(Rollbacks, ACheckpointThatWasThereIsNeeded) {
  Rollbacks rollbacks;
  rollbacks.start(3, /*has_checkpoint=*/false);
  EXPECT_FALSE(rollbacks.needs_checkpoint());
  rollbacks.start(7, /*has_checkpoint=*/true);
  EXPECT_TRUE(rollbacks.needs_checkpoint());
}

TEST(Rollbacks, TheWarningSaysWhereTheRunGoesOn) {
  Rollbacks rollbacks;
  rollbacks.start(3, /*has_checkpoint=*/false);
  EXPECT_EQ(rollbacks.warning(),
            "step 3: the loss or a gradient is not finite; the run goes back to step 0, because it has no checkpoint "
            "yet");
  rollbacks.start(7, /*has_checkpoint=*/true);
  EXPECT_EQ(rollbacks.warning(),
            "step 7: the loss or a gradient is not finite; the run goes back to its newest checkpoint");
}

TEST(Rollbacks, AMachineThatFailsOnAndOnEndsTheRun) {
  Rollbacks rollbacks;
  for (size_t step = 1; step <= Rollbacks::kMost; ++step) {
    EXPECT_TRUE(rollbacks.start(static_cast<int64_t>(step), /*has_checkpoint=*/true));
  }
  try {
    rollbacks.start(1000, /*has_checkpoint=*/true);
    FAIL() << "rolled back once more";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::numerics);
    EXPECT_NE(std::string(error.what())
                  .find("step 1000: the loss or a gradient is not finite, and the run went back "
                        "to a checkpoint 100 times before"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace strata::trainer
