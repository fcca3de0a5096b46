// SPDX-License-Identifier: MIT
// Operators, allocations and collectives that are known are counted as they are, and nothing else is.
#include "tools/bench/step_counter.h"

#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sum.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <thread>

#include "sharding/communication/local_communicator.h"
#include "sharding/communication/silent_communicator.h"
#include "trainer/profile/recorder.h"
#include "trainer/report/timed_communicator.h"

namespace strata::tools {
namespace {

using at::Tensor;
using Operators = std::map<std::string, int64_t>;

TEST(StepCounter, CountsAnOperatorAndNotWhatItCalls) {
  const Tensor x = at::ones({3, 4}), weight = at::ones({5, 4}).requires_grad_(), bias = at::ones({5});
  StepCounter counter(at::kCPU);
  for (int step = 0; step < 2; ++step) {
    counter.begin_step();
    const Tensor y = at::linear(x, weight, bias);  // calls aten::t and aten::addmm
    EXPECT_EQ(counter.counts().operators, (Operators{{"aten::linear", 1}}));
    const Tensor sum = at::sum(at::add(y, y));
    EXPECT_EQ(counter.counts().operators, (Operators{{"aten::add", 1}, {"aten::linear", 1}, {"aten::sum", 1}}));
    sum.backward();
    const Operators all = counter.counts().operators;
    EXPECT_EQ(all.at("aten::mm"), 1);  // the gradient of the weight; x and bias need none
    EXPECT_EQ(all.at("aten::linear"), 1);
  }
}

TEST(StepCounter, CountsAllocationsOfThisThread) {
  const Tensor before = at::empty({100});
  StepCounter counter(at::kCPU);
  const Tensor first = at::empty({7});
  counter.begin_step();
  { const Tensor freed = at::empty({6}); }
  const Tensor kept = at::empty({5}, at::kDouble), nothing = at::empty({0});
  const Tensor view = before.slice(0, 10, 20);
  std::thread([] { at::empty({1000}); }).join();
  const StepCounts counts = counter.counts();
  EXPECT_EQ(counts.allocations, 2);
  EXPECT_EQ(counts.allocated_bytes, 6 * 4 + 5 * 8);
  EXPECT_EQ(counter.peak_bytes(), 5 * 8);
  EXPECT_EQ(counts.operators, (Operators{{"aten::empty", 3}, {"aten::slice", 1}}));
}

TEST(StepCounter, CountsCollectivesOfSeveralRanks) {
  trainer::PhaseTimer timer;
  trainer::TimedCommunicator three(std::make_unique<sharding::SilentCommunicator>(0, 3, at::kCPU), timer);
  trainer::TimedCommunicator one(std::make_unique<sharding::LocalCommunicator>(at::kCPU), timer);
  const Tensor shard = at::ones({4}), full = at::ones({12}), count = at::ones({2}, at::kLong);
  StepCounter counter(at::kCPU);
  counter.begin_step();
  three.all_gather(full, shard, "blocks.0").wait();
  three.all_gather(full, shard, "blocks.1").wait();
  three.reduce_scatter(shard, full, "blocks.1").wait();
  three.all_reduce(count, "loss").wait();
  one.all_reduce(count, "loss").wait();
  const auto collectives = counter.counts().collectives;
  ASSERT_EQ(collectives.size(), 3);
  EXPECT_EQ(collectives.at("all_gather").calls, 2);
  EXPECT_EQ(collectives.at("all_gather").bytes, 2 * 12 * 4);
  EXPECT_EQ(collectives.at("reduce_scatter").calls, 1);
  EXPECT_EQ(collectives.at("reduce_scatter").bytes, 12 * 4);
  EXPECT_EQ(collectives.at("all_reduce").calls, 1);
  EXPECT_EQ(collectives.at("all_reduce").bytes, 2 * 8);
}

TEST(StepCounter, CountsNothingAfterItsEnd) {
  { const StepCounter counter(at::kCPU); }
  const Tensor x = at::ones({3});
  StepCounter counter(at::kCPU);
  EXPECT_TRUE(counter.counts().operators.empty());
  EXPECT_EQ(counter.counts().allocations, 0);
  EXPECT_ANY_THROW(StepCounter{at::kCPU});
}

// A profiler would take the place of a counter for its own, so neither starts beside the other.
TEST(StepCounter, CountsBeforeAProfilerAndAfterIt) {
  using trainer::profile::Recorder, trainer::profile::Scope;
  Recorder recorder(/*on_gpu=*/false);
  for (int round = 0; round < 2; ++round) {
    {
      const StepCounter counter(at::kCPU);
      const Tensor x = at::ones({3});
      EXPECT_EQ(counter.counts().allocations, 1);
    }
    recorder.start();
    EXPECT_ANY_THROW(StepCounter{at::kCPU});
    const Tensor x = at::ones({3});
    EXPECT_EQ(std::ranges::count(recorder.stop().scopes, "aten::ones", &Scope::name), 1);
  }
  const StepCounter counter(at::kCPU);
  EXPECT_ANY_THROW(recorder.start());  // no other follows, because LibTorch would refuse it now
  const Tensor x = at::ones({3});
  EXPECT_EQ(counter.counts().allocations, 1);
}

}  // namespace
}  // namespace strata::tools
