// SPDX-License-Identifier: MIT
// Checks which layers recompute for a budget: against all choices that are considered, for steps with random costs.
#include "trainer/prediction/recompute_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "base/text/word_of.h"

namespace strata::trainer {
namespace {

// Bytes of one layer, by Recompute.
struct Layer {
  std::array<int64_t, 3> kept;      // by its forward
  std::array<int64_t, 3> backward;  // that its backward needs beside them
};

struct FakeStep {
  std::vector<Layer> layers;
  int64_t loss = 0, margin = 0;
  int predictions = 0;

  int64_t count() const { return static_cast<int64_t>(layers.size()); }

  PredictedStep predict(const GradientCheckpointing& checkpointing) {
    ++predictions;
    PredictedStep step{.bytes = 0, .margin = margin};
    int64_t now = 0;
    const auto reach = [&](int64_t bytes, std::optional<int64_t> backward_of) {
      if (bytes > step.bytes) step.bytes = bytes, step.backward_of = backward_of;
    };
    const auto how = [&](int64_t i) { return static_cast<size_t>(checkpointing.of(i)); };
    for (int64_t i = 0; i < count(); ++i) now += layers.at(static_cast<size_t>(i)).kept[how(i)];
    reach(now + loss, std::nullopt);
    for (int64_t i = count(); i-- > 0;) {
      const Layer& layer = layers.at(static_cast<size_t>(i));
      reach(now + layer.backward[how(i)], i);
      now -= layer.kept[how(i)];
    }
    return step;
  }
  RecomputeChoice choose(int64_t budget) {
    predictions = 0;
    return cheapest_that_fits(count(), budget, [this](const auto& checkpointing) { return predict(checkpointing); });
  }

  // All choices that are considered, the cheapest first. The first `layers` + 1 have no layer with `full`.
  std::vector<GradientCheckpointing> considered() const {
    std::vector<GradientCheckpointing> all = {{Recompute::none}};
    using Lines = std::vector<GradientCheckpointing::Layers>;
    for (int64_t i = 0; i < count(); ++i) all.push_back({Lines{{{0, i}, Recompute::selective}}});
    for (int64_t i = 0; i < count(); ++i) {
      all.push_back({Lines{{{0, count() - 1}, Recompute::selective}, {{0, i}, Recompute::full}}});
    }
    return all;
  }
};

FakeStep four_layers() {
  FakeStep step;
  step.layers.resize(4, {{100, 60, 20}, {30, 70, 120}});
  step.loss = 50;
  return step;
}

// "full selective none none"
std::string words(const GradientCheckpointing& checkpointing, int64_t layers) {
  std::string text;
  for (int64_t i = 0; i < layers; ++i) {
    text += std::string(i > 0 ? " " : "") + word_of(checkpointing.of(i));
  }
  return text;
}

TEST(RecomputeChoice, ByHand) {
  FakeStep step = four_layers();
  const auto chosen = [&](int64_t budget) { return words(step.choose(budget).checkpointing, 4); };
  // When the loss begins, the layers keep 4 x 100, 40 less for each that is selective, and 80 less for each that is
  // full.
  EXPECT_EQ(chosen(450), "none none none none");
  EXPECT_EQ(chosen(449), "selective none none none");
  EXPECT_EQ(chosen(410), "selective none none none");
  EXPECT_EQ(chosen(409), "selective selective none none");
  EXPECT_EQ(chosen(310), "selective selective selective selective");
  // The last selective layer takes the most in its backward, 4 x 60 + 70.
  EXPECT_EQ(chosen(309), "full selective selective selective");
  // The backward of the last layer takes 4 x 20 + 120 with full, and 3 x 20 + 60 + 70 with selective.
  EXPECT_EQ(chosen(199), "full full full selective");
  EXPECT_EQ(chosen(190), "full full full selective");
  const RecomputeChoice least = step.choose(189);
  EXPECT_EQ(words(least.checkpointing, 4), "full full full selective");
  EXPECT_EQ(least.step.bytes, 190);
}

TEST(RecomputeChoice, IsWrittenAsAWordOrAsRanges) {
  FakeStep step = four_layers();
  EXPECT_EQ(std::get<Recompute>(step.choose(450).checkpointing.layers), Recompute::none);
  EXPECT_EQ(std::get<Recompute>(step.choose(310).checkpointing.layers), Recompute::selective);
  using Lines = std::vector<GradientCheckpointing::Layers>;
  EXPECT_EQ(std::get<Lines>(step.choose(409).checkpointing.layers), (Lines{{{0, 1}, Recompute::selective}}));
  EXPECT_EQ(std::get<Lines>(step.choose(190).checkpointing.layers),
            (Lines{{{0, 2}, std::nullopt}, {{3, 3}, Recompute::selective}}));
}

TEST(RecomputeChoice, LeavesRoomForTheMargin) {
  FakeStep step = four_layers();
  step.margin = 10;
  EXPECT_EQ(words(step.choose(460).checkpointing, 4), "none none none none");
  EXPECT_EQ(words(step.choose(459).checkpointing, 4), "selective none none none");
  EXPECT_EQ(step.choose(459).step.needed(), 420);
}

// Layers differ: with `full`, a large one may take more in its backward than all others together.
TEST(RecomputeChoice, IsTheFirstOfAllThatFits) {
  std::mt19937 random(7);
  const auto number = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  int chosen_full = 0, nothing_fits = 0;
  for (int round = 0; round < 2000; ++round) {
    FakeStep step{.layers = {}, .loss = number(0, 400)};
    for (int64_t i = number(1, 7); i > 0; --i) {
      const int64_t none = number(20, 200), selective = number(10, none), full = number(1, selective);
      const int64_t backward = number(0, 60);
      step.layers.push_back({{none, selective, full}, {backward, backward + none - selective, backward + none}});
    }
    std::vector<int64_t> bytes;
    for (const GradientCheckpointing& one : step.considered()) bytes.push_back(step.predict(one).bytes);
    const int64_t least = *std::ranges::min_element(bytes), budget = number(least - 20, bytes.front() + 10);
    const RecomputeChoice choice = step.choose(budget);
    EXPECT_EQ(choice.step.bytes, step.predict(choice.checkpointing).bytes);
    if (least > budget) {
      ++nothing_fits;
      EXPECT_EQ(choice.step.bytes, least) << "round " << round;
      continue;
    }
    // `full` is considered only if `selective` does not fit for all layers.
    const auto layers = static_cast<size_t>(step.count());
    const bool by_full = bytes.front() > budget && bytes[layers] > budget;
    chosen_full += by_full ? 1 : 0;
    size_t first = by_full ? layers + 1 : 0;
    while (first < bytes.size() && bytes[first] > budget) ++first;
    ASSERT_LT(first, bytes.size());
    EXPECT_EQ(words(choice.checkpointing, step.count()), words(step.considered()[first], step.count()))
        << "round " << round << ", budget " << budget;
  }
  EXPECT_GT(chosen_full, 100);
  EXPECT_GT(nothing_fits, 20);
}

TEST(RecomputeChoice, NeedsAtMostADozenPredictions) {
  FakeStep step;
  step.layers.resize(128, {{100, 60, 20}, {30, 70, 120}});
  step.loss = 50;
  const int64_t most = step.predict({Recompute::none}).bytes;
  for (int64_t budget = most; budget > 0; budget -= most / 50) {
    step.choose(budget);
    EXPECT_LE(step.predictions, 2 + 3 + 7) << "budget " << budget;
  }
}

}  // namespace
}  // namespace strata::trainer
