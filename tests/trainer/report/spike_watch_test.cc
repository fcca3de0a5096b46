// SPDX-License-Identifier: MIT
// Checks which steps are named as spikes of loss or gradient norm: those of a fault, at once, and none because of
// noise.
#include "trainer/report/spike_watch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

namespace strata::trainer {
namespace {

// Losses that fall, and gradient norms with the noise of small batches: every 20th is twice as large.
class NoisyRun {
 public:
  explicit NoisyRun(uint32_t seed) : random_(seed) {}

  std::vector<Spike> step(double times_loss = 1, double times_norm = 1) {
    ++step_;
    std::lognormal_distribution<double> loss_noise(0, 0.05), norm_noise(0, 0.3);
    const double loss = (2 + 9 * std::exp(-step_ / 200.0)) * loss_noise(random_);
    const double norm = (0.5 + 4 * std::exp(-step_ / 50.0)) * norm_noise(random_) * (random_() % 20 == 0 ? 2 : 1);
    return watch_.add(loss * times_loss, norm * times_norm);
  }

 private:
  std::mt19937 random_;
  SpikeWatch watch_;
  int step_ = 0;
};

TEST(SpikeWatch, NamesNothingIn2000CleanSteps) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    NoisyRun run(seed);
    for (int step = 0; step < 2000; ++step) ASSERT_TRUE(run.step().empty()) << "seed " << seed << ", step " << step;
  }
}

TEST(SpikeWatch, NamesAGradientNormThatIsAThousandTimesAsLargeAtItsStep) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    NoisyRun run(seed);
    for (uint32_t step = 0; step < 16 + 50 * seed; ++step) ASSERT_TRUE(run.step().empty());
    const std::vector<Spike> found = run.step(1, 1000);
    ASSERT_EQ(found.size(), 1u) << "seed " << seed;
    EXPECT_EQ(found[0].what, "gradient norm");
    EXPECT_GT(found[0].value, 50 * found[0].usual);
    for (int step = 0; step < 100; ++step) ASSERT_TRUE(run.step().empty());
  }
}

TEST(SpikeWatch, NamesALossThatIsTenTimesAsLargeAndNotTheStepsAfterIt) {
  NoisyRun run(1);
  for (int step = 0; step < 300; ++step) ASSERT_TRUE(run.step().empty());
  EXPECT_EQ(run.step(10).size(), 1u);
  for (int step = 0; step < 16; ++step) EXPECT_TRUE(run.step(10).empty());
}

TEST(SpikeWatch, LeavesOutNumbersThatAreNotFinite) {
  NoisyRun run(2);
  for (int step = 0; step < 100; ++step) run.step();
  for (const double value : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 0.0}) {
    EXPECT_TRUE(run.step(value, value).empty());
  }
  EXPECT_EQ(run.step(1, 1000).size(), 1u);
}

TEST(SpikeWatch, SaysWhatIsUnusual) {
  EXPECT_EQ(
      to_text(7, {"gradient norm", 812.5, 0.8125}),
      "step 7: the gradient norm is 812.5, and was about 0.8125 in the steps before; it may come from a bad sample, a "
      "learning rate that is too high, or a fault of the hardware, which a replay of the step tells apart");
}

}  // namespace
}  // namespace strata::trainer
