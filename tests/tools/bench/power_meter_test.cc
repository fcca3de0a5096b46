// SPDX-License-Identifier: MIT
// The power of a counter that moves only now and then, read at other times.
#include <gtest/gtest.h>

#include <chrono>
#include <initializer_list>
#include <optional>
#include <utility>

#include "tools/bench/energy.h"

namespace strata::tools {
namespace {

using Reading = std::pair<int, std::optional<double>>;  // milliseconds and joules

std::optional<double> watts_of(std::initializer_list<Reading> readings) {
  PowerMeter meter(at::kCPU);
  for (const auto& [milliseconds, joules] : readings) {
    meter.add(PowerMeter::Clock::time_point(std::chrono::milliseconds(milliseconds)), joules);
  }
  return meter.watts();
}

TEST(PowerMeter, CountsBetweenTheFirstAndTheLastMove) {
  // Readings before the first move and after the last one change nothing.
  EXPECT_DOUBLE_EQ(*watts_of({{0, 7}, {90, 7}, {100, 17}, {150, 17}, {200, 37}, {300, 47}, {350, 47}}), 150);
  EXPECT_DOUBLE_EQ(*watts_of({{100, 17}, {200, 27}, {400, 87}}), 300);
}

TEST(PowerMeter, KnowsNothingBeforeTwoMoves) {
  EXPECT_EQ(watts_of({}), std::nullopt);
  EXPECT_EQ(watts_of({{0, 7}, {100, 7}}), std::nullopt);
  EXPECT_EQ(watts_of({{0, 7}, {100, 17}, {200, 17}}), std::nullopt);
}

// Nobody saw when the counter moved while it could not be read.
TEST(PowerMeter, TakesNoMoveThatItHasNotSeen) {
  EXPECT_DOUBLE_EQ(*watts_of({{0, 7}, {100, 17}, {200, {}}, {250, 47}, {300, 57}}), 200);
  EXPECT_EQ(watts_of({{0, {}}, {100, {}}, {200, {}}}), std::nullopt);
}

TEST(PowerMeter, ACpuHasNoCounter) {
  PowerMeter meter(at::kCPU);
  meter.sample();
  EXPECT_EQ(meter.watts(), std::nullopt);
  EXPECT_EQ(joules_of(at::kCPU), std::nullopt);
  EXPECT_EQ(joules_per_call(at::kCPU, 1, [](int64_t) { FAIL() << "nothing is to be measured"; }), std::nullopt);
}

}  // namespace
}  // namespace strata::tools
