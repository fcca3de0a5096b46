// SPDX-License-Identifier: MIT
// Checks what `memory_budget` picks: it fits when it runs, counted by the allocator, and nothing cheaper fits. On CPUs
// or on GPUs.
#include "trainer/settle_recompute.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "tests/sharding/mpi_main.h"
#include "tests/trainer/memory/counted_step.h"
#include "trainer/prediction/peak_memory.h"
#include "trainer/prediction/trace_step.h"
#include "trainer/tasks/task.h"

namespace strata::trainer {
namespace {

using tests::session;

// Numbers of 4 or 8 bytes that ops make on CPUs are not traced.
constexpr int64_t kNumbers = 1024;

// The first `full` of four layers recompute all, those up to `selective` selectively.
GradientCheckpointing first_of_four(int64_t full, int64_t selective) {
  std::vector<GradientCheckpointing::Layers> lines;
  if (selective > 0) lines.push_back({{0, selective - 1}, Recompute::selective});
  if (full > 0) lines.push_back({{0, full - 1}, Recompute::full});
  return {lines};
}

// The choice of `memory_budget` fits when it runs, and nothing cheaper fits, on the rank that takes the most. For
// budgets between all and nothing it picks at least `different` different choices.
void expect_the_cheapest(const std::vector<std::string>& overrides, size_t different) {
  LoadedConfig loaded = loaded_for(overrides);
  TrainerConfig& config = loaded.config;
  const PeakMemory memory(config);
  const auto step_of = [&](const GradientCheckpointing& checkpointing) {
    TrainerConfig changed = config;
    changed.gradient_checkpointing = checkpointing;
    return trace_step(changed, *task_to_trace(changed), session().rank());
  };
  // The cheapest first.
  std::vector<std::pair<int64_t, int64_t>> ways;
  for (int64_t selective = 0; selective <= 4; ++selective) ways.emplace_back(0, selective);
  for (int64_t full = 1; full <= 4; ++full) ways.emplace_back(full, 4);
  std::vector<int64_t> needed;
  for (const auto& [full, selective] : ways) {
    const StepTrace step = step_of(first_of_four(full, selective));
    const int64_t own = sum_of(memory.classes(step)) + memory.margin(step);
    needed.push_back(0);
    for (const std::string& text : session().gather(std::to_string(own))) {
      needed.back() = std::max<int64_t>(needed.back(), std::stoll(text));
    }
  }
  const auto settle = [&](int64_t budget) {
    config.gradient_checkpointing = {};
    config.memory_budget = static_cast<double>(budget) / (1 << 30);
    settle_recompute(loaded, session());
  };
  const int64_t least = *std::ranges::min_element(needed);
  std::set<size_t> picked;
  for (const int64_t budget : needed) {
    settle(budget);
    const auto place = static_cast<size_t>(
        std::ranges::find_if(needed, [&](int64_t bytes) { return bytes <= budget; }) - needed.begin());
    picked.insert(place);
    const GradientCheckpointing cheapest = first_of_four(ways[place].first, ways[place].second);
    for (int64_t layer = 0; layer < 4; ++layer) {
      EXPECT_EQ(config.gradient_checkpointing.of(layer), cheapest.of(layer)) << "budget " << budget;
    }
    const StepTrace step = step_of(cheapest);
    const int64_t standing = sum_of(memory.classes(step)) - step.peak;
    EXPECT_LE(standing + count(config).most, budget + kNumbers) << "with way " << place;
  }
  EXPECT_GE(picked.size(), different);
  try {
    settle(least - 1);
    ADD_FAILURE() << "nothing fits, and it was not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::out_of_memory);
    EXPECT_NE(std::string(error.what()).find("needs at least"), std::string::npos) << error.what();
  }
}

TEST(SettleRecompute, OfLanguageModels) {
  expect_the_cheapest({}, 8);
  expect_the_cheapest({"model.family=gpt2"}, 8);
}

// With the margin for oneDNN.
TEST(SettleRecompute, In16Bits) { expect_the_cheapest({"precision.compute=bfloat16", "model.vocabulary=1000"}, 9); }

TEST(SettleRecompute, OfVisionTransformers) { expect_the_cheapest(vision({}), 8); }

// `selective` saves nothing here, because the backward of a layer takes the most. Ranks have parts of different sizes.
TEST(SettleRecompute, OfGraphNetworks) { expect_the_cheapest(graph({"model.norm=true", "model.residual=true"}), 3); }

}  // namespace
}  // namespace strata::trainer
