// SPDX-License-Identifier: MIT
// Histories of largest magnitudes over 100 steps, against plain lists that each rank keeps of all ranks.
#include "trainer/model/amax_history.h"

#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/maximum.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <string>
#include <vector>

#include "base/permutation.h"
#include "tests/sharding/mpi_main.h"

namespace strata::trainer {
namespace {

using modules::LinearFormat;
using modules::LinearFormatsConfig;
using modules::LinearScaling;

const std::vector<modules::DeclaredModule> kModules = {
    {.name = "blocks.0.attention", .group = "blocks.0"},
    {.name = "blocks.0.attention.qkv", .group = "blocks.0", .product = modules::DeclaredLinear{12, 4}},
    {.name = "blocks.0.mlp.up", .group = "blocks.0", .product = modules::DeclaredLinear{8, 4}},
    {.name = "blocks.1.mlp.up", .group = "blocks.1", .product = modules::DeclaredLinear{8, 4}},
    {.name = "head", .group = "head", .product = modules::DeclaredLinear{8, 4}},
};
const std::vector<std::string> kWithHistory = {"blocks.0.attention.qkv", "blocks.1.mlp.up"};
constexpr int64_t kHistory = 16, kSteps = 100;

LinearFormatsConfig formats(int64_t history = kHistory) {
  return {
      .format = LinearFormat::fp8, .scaling = LinearScaling::delayed, .history = history, .keep = {"blocks.0.mlp.up"}};
}

// What a rank records for an operand in a micro-batch: numbers of many sizes. The first operand is zero in some steps.
float magnitude(int64_t step, int64_t micro_batch, int64_t rank, int64_t operand) {
  if (operand == 0 && step < 3) return 0;
  const auto place = static_cast<uint64_t>(((step * 2 + micro_batch) * 8 + rank) * 6 + operand);
  return std::ldexp(static_cast<float>(mix(3, place) >> 40), static_cast<int>(mix(5, place) % 20) - 40);
}

bool is_skipped(int64_t step) { return step % 11 == 5; }

std::vector<kernels::DelayedScale> scales_of(const AmaxHistory& history) {
  std::vector<kernels::DelayedScale> all;
  for (const std::string& module : kWithHistory) {
    const kernels::DelayedScales scales = history.of(module);
    all.insert(all.end(), {scales.x, scales.weight, scales.gradient});
  }
  return all;
}

void record(const kernels::DelayedScale& scale, float largest) {
  scale.present.copy_(at::maximum(scale.present, at::full_like(scale.present, largest)));
}

// `updates` has this step if it is not skipped.
void end_step(AmaxHistory& history, int64_t updates, bool skipped = false) {
  const auto number = [&](int64_t value) { return at::full({}, value, history.values().options()); };
  history.end_step(number(updates), number(skipped ? 1 : 0));
}

// How a reference may be wrong; it must not fit then.
enum class Mutation { none, keeps_one_more, counts_skipped_steps, sees_one_rank };

// Returns the number of the first step whose scales differ from those of the reference; kSteps: none does.
int64_t first_difference(Mutation mutation) {
  AmaxHistory history(formats(), kModules, tests::world(), tests::device());
  const std::vector<kernels::DelayedScale> scales = scales_of(history);
  std::vector<std::deque<float>> lists(scales.size());
  const int64_t rank = tests::world().rank(), ranks = tests::world().size();
  int64_t first = kSteps, updates = 0;
  for (int64_t step = 0; step < kSteps; ++step) {
    for (size_t i = 0; i < scales.size(); ++i) {
      const auto operand = static_cast<int64_t>(i);
      const float past = lists[i].empty() ? 0 : *std::ranges::max_element(lists[i]);
      if (scales[i].past.item<float>() != past) first = std::min(first, step);
      float most = 0;
      for (int64_t micro_batch = 0; micro_batch < 2; ++micro_batch) {
        record(scales[i], magnitude(step, micro_batch, rank, operand));
        for (int64_t other = 0; other < (mutation == Mutation::sees_one_rank ? 1 : ranks); ++other) {
          most = std::max(most, magnitude(step, micro_batch, other, operand));
        }
      }
      if (is_skipped(step) && mutation != Mutation::counts_skipped_steps) continue;
      lists[i].push_front(most);
      const size_t kept = kHistory + (mutation == Mutation::keeps_one_more ? 1 : 0);
      if (lists[i].size() > kept) lists[i].pop_back();
    }
    if (!is_skipped(step)) ++updates;
    end_step(history, updates, is_skipped(step));
  }
  return first;
}

TEST(AmaxHistory, HasTheLargestOfTheLastSteps) { EXPECT_EQ(first_difference(Mutation::none), kSteps); }

TEST(AmaxHistory, DiffersFromWrongReferences) {
  EXPECT_LT(first_difference(Mutation::keeps_one_more), kSteps);
  EXPECT_LT(first_difference(Mutation::counts_skipped_steps), kSteps);
  if (tests::world().size() > 1) {
    EXPECT_LT(first_difference(Mutation::sees_one_rank), kSteps);
  }
}

TEST(AmaxHistory, OfOneStepIsThatOfTheStepBefore) {
  AmaxHistory history(formats(1), kModules, tests::world(), tests::device());
  const kernels::DelayedScale scale = history.of("blocks.1.mlp.up").x;
  record(scale, 5);
  end_step(history, /*updates=*/1);
  EXPECT_EQ(scale.past.item<float>(), 5);
  record(scale, 9);
  end_step(history, /*updates=*/1, /*skipped=*/true);
  EXPECT_EQ(scale.past.item<float>(), 5);
  record(scale, 2);
  end_step(history, /*updates=*/2);
  EXPECT_EQ(scale.past.item<float>(), 2);
}

// The places of updates are those of a resumed run too.
TEST(AmaxHistory, AnUpdateHasAPlaceOfItsOwn) {
  AmaxHistory history(formats(4), kModules, tests::world(), tests::device());
  for (int64_t update = 7; update < 13; ++update) {
    record(history.of("blocks.0.attention.qkv").weight, static_cast<float>(update));
    end_step(history, update);
  }
  const Tensor values = history.histories()[0].values.cpu();
  for (int64_t place = 0; place < 4; ++place) {
    EXPECT_EQ(values[4 + place].item<float>(), static_cast<float>(9 + place));  // updates 9 to 12
    EXPECT_EQ(values[place].item<float>(), 0);
  }
}

TEST(AmaxHistory, TakesTheSameOnAnyNumberOfRanks) {
  const AmaxHistory history(formats(), kModules, tests::world(), tests::device());
  EXPECT_EQ(history.bytes(), 4 * (6 * kHistory + 6 + 6 + kHistory));  // 6 operands; then places of steps
}

TEST(AmaxHistory, NamesAModuleThatHasNone) {
  const AmaxHistory history(formats(), kModules, tests::world(), tests::device());
  try {
    history.of("blocks.0.mlp.up");
    ADD_FAILURE() << "nothing was thrown";
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what()).find("blocks.0.mlp.up has no history"), std::string::npos) << error.what();
  }
}

TEST(AmaxHistory, IsThatOfRank0AfterACheckpoint) {
  AmaxHistory history(formats(), kModules, tests::world(), tests::device());
  const std::vector<AmaxHistory::OfModule> all = history.histories();
  ASSERT_EQ(all.size(), kWithHistory.size());
  EXPECT_EQ(history.steps(), kHistory);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].module, kWithHistory[i]);
    ASSERT_EQ(all[i].values.sizes(), at::IntArrayRef({3 * kHistory}));
    ASSERT_TRUE(all[i].values.is_contiguous());
    if (tests::world().rank() == 0) all[i].values.narrow(0, kHistory + 5, 1).fill_(static_cast<double>(i) + 2);
  }
  history.share();
  for (size_t i = 0; i < all.size(); ++i) {
    const kernels::DelayedScales scales = history.of(kWithHistory[i]);
    EXPECT_EQ(all[i].values[kHistory + 5].item<float>(), static_cast<float>(i) + 2);
    EXPECT_EQ(scales.weight.past.item<float>(), static_cast<float>(i) + 2);
    EXPECT_EQ(scales.x.past.item<float>(), 0);
    EXPECT_EQ(scales.gradient.past.item<float>(), 0);
  }
}

// A number that is not finite comes with a skipped update.
TEST(AmaxHistory, LostNumbersOfASkippedStepLeaveNoTrace) {
  AmaxHistory history(formats(), kModules, tests::world(), tests::device());
  const kernels::DelayedScale scale = history.of("blocks.1.mlp.up").gradient;
  record(scale, 3);
  end_step(history, /*updates=*/1);
  record(scale, std::nanf(""));
  end_step(history, /*updates=*/1, /*skipped=*/true);
  EXPECT_EQ(scale.past.item<float>(), 3);
  EXPECT_EQ(scale.present.item<float>(), 0);
}

TEST(AmaxHistory, IsEmptyWithoutDelayedScales) {
  for (const LinearFormatsConfig& other :
       {LinearFormatsConfig(), LinearFormatsConfig{.format = LinearFormat::fp8},
        LinearFormatsConfig{.format = LinearFormat::fp8, .scaling = LinearScaling::row}}) {
    AmaxHistory history(other, kModules, tests::world(), tests::device());
    EXPECT_EQ(history.bytes(), 0);
    EXPECT_TRUE(history.histories().empty());
    EXPECT_FALSE(history.is_on());
    history.share();
  }
}

}  // namespace
}  // namespace strata::trainer
