// SPDX-License-Identifier: MIT
// Checks which rank is named as a straggler: the one that is slow in each step, soon, and none because of noise.
#include "trainer/report/straggler_watch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <random>
#include <utility>
#include <vector>

#include "base/steady_seconds.h"

namespace strata::trainer {
namespace {

constexpr size_t kData = 0, kForward = 1, kPhases = 2;

// Steps of ranks whose work has noise.
class NoisyRun {
 public:
  NoisyRun(size_t ranks, double seconds, double noise, uint32_t seed)
      : ranks_(ranks),
        seconds_(seconds),
        noise_(noise),
        random_(seed),
        watch_(static_cast<int>(ranks), {"data", "forward"}) {}

  // Takes one step in which `slow` works `delay` seconds longer in `phase`.
  std::vector<Straggler> step(size_t slow = 0, double delay = 0, size_t phase = kData) {
    std::lognormal_distribution<double> factor(0, noise_);
    std::vector<float> work;
    double longest = 0;
    for (size_t rank = 0; rank < ranks_; ++rank) {
      const double spike = random_() % 20 == 0 ? seconds_ : 0;  // another program takes the core of this rank
      double times[kPhases] = {0.1 * seconds_ * factor(random_), 0.9 * seconds_ * factor(random_) + spike};
      if (rank == slow) times[phase] += delay;
      longest = std::max(longest, times[kData] + times[kForward]);
      for (const double time : times) work.push_back(static_cast<float>(time));
    }
    now_ += longest;
    return watch_.see(1e3 * longest, work, now_);
  }
  double now() const { return now_; }

 private:
  const size_t ranks_;
  const double seconds_, noise_;
  std::mt19937 random_;
  StragglerWatch watch_;
  double now_ = 0;
};

TEST(StragglerWatch, NamesThe100MillisecondsOfOneRankWithin20StepsIn20Of20Runs) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    const size_t ranks = 2 + seed % 7, slow = seed % ranks, phase = seed % kPhases;
    NoisyRun run(ranks, 1, 0.02, seed);
    for (int step = 0; step < 50; ++step) ASSERT_TRUE(run.step().empty());
    std::vector<Straggler> found;
    for (int step = 0; step < 20 && found.empty(); ++step) found = run.step(slow, 0.1, phase);
    ASSERT_EQ(found.size(), 1u) << "seed " << seed;
    EXPECT_EQ(found[0].rank, static_cast<int>(slow));
    EXPECT_EQ(found[0].phase, phase == kData ? "data" : "forward");
    EXPECT_NEAR(found[0].milliseconds, 100, 30);
    EXPECT_NEAR(found[0].ratio, 1.1, 0.04);
  }
}

TEST(StragglerWatch, NamesNobodyIn2000StepsOfNoise) {
  for (const size_t ranks : {2, 3, 64}) {
    for (const double seconds : {0.05, 0.3, 1.0}) {
      for (const double noise : {0.02, 0.1}) {
        NoisyRun run(ranks, seconds, noise, /*seed=*/7);
        size_t named = 0;
        for (int step = 0; step < 2000; ++step) named += run.step().size();
        EXPECT_EQ(named, 0u) << ranks << " ranks, " << seconds << " s, noise " << noise;
      }
    }
  }
}

// The times of ranks come with the loss. What a step costs besides is this look at them, on rank 0.
TEST(StragglerWatch, CostsLittleOfAStep) {
  StragglerWatch watch(/*ranks=*/8, {"data", "forward"});
  const std::vector<float> work(8 * kPhases, 0.05f);
  constexpr int kSteps = 10'000;
  const double begin = steady_seconds();
  for (int step = 0; step < kSteps; ++step) ASSERT_TRUE(watch.see(100, work, 0.1 * step).empty());
  const double microseconds = 1e6 * (steady_seconds() - begin) / kSteps;
  std::printf("a look at the times of 8 ranks takes %.1f us\n", microseconds);
  EXPECT_LT(microseconds, 500);
}

TEST(StragglerWatch, LeavesOutDelaysThatAreShortSmallOrOfTheWholeRun) {
  NoisyRun short_delay(3, 1, 0.02, 1), under_20_ms(3, 0.05, 0.02, 1), under_5_percent(3, 1, 0.02, 1);
  for (int step = 0; step < 100; ++step) {
    EXPECT_TRUE(short_delay.step(1, step % 20 < 9 ? 0.5 : 0).empty());
    EXPECT_TRUE(under_20_ms.step(1, 0.015).empty());
    EXPECT_TRUE(under_5_percent.step(1, 0.03).empty());
  }
  NoisyRun alone(1, 1, 0.02, 1);
  for (int step = 0; step < 100; ++step) EXPECT_TRUE(alone.step(0, 1).empty());
}

TEST(StragglerWatch, NamesTwoSlowRanksOfFive) {
  StragglerWatch watch(5, {"data"});
  std::vector<Straggler> found;
  for (int step = 0; step < 20 && found.empty(); ++step) {
    found = watch.see(1100, std::vector<float>{1, 1.1f, 1, 1.1f, 1}, step);
  }
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(std::pair(found[0].rank, found[1].rank), std::pair(1, 3));
}

TEST(StragglerWatch, DoublesThePauseBetweenTwoNamesOfARank) {
  NoisyRun run(2, 1, 0.001, 1);
  std::vector<double> times;
  for (int step = 0; step < 500; ++step) {
    if (!run.step(1, 0.5).empty()) times.push_back(run.now());
  }
  ASSERT_EQ(times.size(), 4u);
  for (size_t i = 1; i < times.size(); ++i) EXPECT_NEAR(times[i] - times[i - 1], 60 << (i - 1), 3);
}

TEST(StragglerWatch, SaysWhatIsSlow) {
  EXPECT_EQ(
      to_text({.rank = 3, .phase = "data", .milliseconds = 99.6, .ratio = 1.1}),
      "rank 3 delays the others: its own work takes 100 ms longer in most steps than that of the median rank (most of "
      "it: data), which makes a step up to 1.10 times as long");
}

}  // namespace
}  // namespace strata::trainer
