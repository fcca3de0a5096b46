// SPDX-License-Identifier: MIT
// Checks steps of artificial recordings: their borders and times, replays whose kernels are named by an eager step, and
// sequences that differ.
#include "trainer/profile/recorded_steps.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <map>

#include "tests/trainer/profile/made_up.h"
#include "trainer/profile/intervals.h"
#include "trainer/profile/match_kernels.h"

namespace strata::trainer::profile {
namespace {

TEST(Intervals, CoverOverlapsOnce) {
  EXPECT_EQ(covered({}), 0);
  EXPECT_EQ(covered({{0, 10}, {5, 20}, {30, 40}, {32, 35}}), 30);
  EXPECT_EQ(covered_without({{0, 10}, {20, 30}}, {{5, 25}}), 10);
  EXPECT_EQ(covered_without({{5, 8}}, {{0, 10}}), 0);
  EXPECT_EQ(covered_without({}, {{0, 10}}), 0);
}

using Names = std::vector<std::string>;

TEST(Sequence, EqualOnesMatchOneByOne) {
  const Names names{"a", "b", "a"};
  EXPECT_EQ(match_kernels(names, names), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(difference(names, names, match_kernels(names, names)), "");
}

TEST(Sequence, DifferencesAreSaidAndTheRestIsMatched) {
  const Names eager{"a", "b", "c", "d", "e"}, replayed{"a", "x", "c", "e"};
  const std::vector<int64_t> matched = match_kernels(eager, replayed);
  EXPECT_EQ(matched, (std::vector<int64_t>{0, -1, 2, 4}));
  EXPECT_EQ(difference(eager, replayed, matched),
            "the replay has 4 kernels and the eager step 5; 1 of the replay have no match; the first difference is at "
            "1: x instead of b");
}

TEST(Sequence, OneThatEndsEarlyOrIsEmpty) {
  EXPECT_EQ(match_kernels({"a", "b"}, {"a"}), (std::vector<int64_t>{0}));
  EXPECT_NE(difference({"a", "b"}, {"a"}, {0}).find("at 1: none instead of b"), std::string::npos);
  EXPECT_EQ(match_kernels({}, {"a"}), (std::vector<int64_t>{-1}));
  EXPECT_EQ(match_kernels({"a"}, {}), std::vector<int64_t>{});
}

TEST(Sequence, OnesThatAreTooLongToCompareMatchAtTheirEnds) {
  Names eager{"first"}, replayed{"first"};
  for (int i = 0; i < 5000; ++i) {
    eager.push_back("e" + std::to_string(i));
    replayed.push_back("r" + std::to_string(i));
  }
  eager.insert(eager.begin() + 2500, "common");
  replayed.insert(replayed.begin() + 2500, "common");
  eager.emplace_back("last"), replayed.emplace_back("last");
  const std::vector<int64_t> matched = match_kernels(eager, replayed);
  EXPECT_EQ(matched.front(), 0);
  EXPECT_EQ(matched.back(), static_cast<int64_t>(eager.size()) - 1);
  EXPECT_EQ(matched[2500], -1);
}

// Adds step `number`. The host queues it from `host` on, the device runs it from `device` on: norm, a gather next to a
// product, the gradient of the product.
void add_eager(MadeUp& recording, int64_t number, int64_t host, int64_t device) {
  recording.user("step " + std::to_string(number), host, host + 100);
  recording.user("data", host + 1, host + 5);
  recording.kernel("fill", host + 2, device, device + 10);
  recording.user("forward", host + 10, host + 40);
  recording.user("layer 0", host + 11, host + 30);
  recording.user("rms_norm/cuda", host + 12, host + 14);
  recording.kernel("norm_kernel", host + 13, device + 10, device + 20);
  recording.user("all_gather blocks.1", host + 15, host + 17);
  recording.kernel("ncclDevKernel_AllGather", host + 16, device + 15, device + 60, kLoop, 20);
  recording.user("linear/cuda", host + 18, host + 20);
  recording.kernel("gemm", host + 19, device + 30, device + 50);
  recording.user("backward", host + 40, host + 80);
  recording.user("linear/cuda/backward", host + 50, host + 60, kAutograd);
  recording.kernel("gemm", host + 55, device + 70, device + 90, kAutograd);
  // The reader thread copies a batch of a later step, which belongs to no step.
  recording.kernel("Memcpy HtoD", host + 50, device - 500, device - 490, kReader, 30);
}

TEST(Steps, TimesOfEagerSteps) {
  MadeUp recording;
  add_eager(recording, 4, 0, 1000);
  add_eager(recording, 5, 100, 1100);
  StepReader reader;
  const std::vector<RecordedStep> steps = reader.read(recording);
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].number, 4);
  EXPECT_FALSE(steps[0].replayed);
  EXPECT_EQ(steps[0].start, 1000);
  EXPECT_EQ(steps[0].end, 1100);
  EXPECT_EQ(steps[1].end, 1190);
  ASSERT_EQ(steps[0].activities.size(), 5u);
  EXPECT_EQ(steps[0].activities[2].origin.op, "all_gather");
  EXPECT_EQ(steps[0].activities[2].origin.layer, 1);
  EXPECT_EQ(steps[0].activities[4].origin.backward, true);
  const StepTimes times = times_of(steps[0]);
  EXPECT_EQ(times.total, 100);
  EXPECT_EQ(times.forward, 30);   // 10-20, 30-50
  EXPECT_EQ(times.backward, 20);  // 70-90
  EXPECT_EQ(times.optimizer, 0);
  EXPECT_EQ(times.other, 10);          // 0-10: copies of inputs
  EXPECT_EQ(times.compute, 60);        // 0-20, 30-50, 70-90
  EXPECT_EQ(times.communication, 45);  // 15-60
  EXPECT_EQ(times.exposed, 20);        // 20-30, 50-60
  EXPECT_EQ(times.idle, 20);           // 60-70, 90-100
  EXPECT_EQ(times.launches, 5);
  EXPECT_EQ(times_of(steps[1]).idle, 10);
  EXPECT_EQ(reader.without_launch(), 0);
}

TEST(Steps, WorkBetweenStepsIsNotTheirs) {
  MadeUp recording;
  add_eager(recording, 4, 0, 1000);
  recording.user("evaluation", 110, 400);
  recording.kernel("gemm", 150, 1095, 1900);
  add_eager(recording, 5, 500, 2000);
  const std::vector<RecordedStep> steps = StepReader().read(recording);
  EXPECT_EQ(steps[0].end, 1090);
  EXPECT_EQ(times_of(steps[0]).idle, 10);
}

TEST(Steps, CallsInWhichTheHostWaitsAreCounted) {
  MadeUp recording;
  add_eager(recording, 4, 0, 1000);
  add_eager(recording, 5, 200, 1200);
  const auto call = [&](const char* name, int64_t time, int64_t thread) {
    recording.launches.push_back({name, time, thread, ++recording.correlation});
  };
  call("cudaStreamSynchronize", 12, kLoop);
  call("cudaMemcpy", 56, kAutograd);
  call("cudaMemcpyAsync", 14, kLoop);
  call("cudaEventSynchronize", 50, kReader);  // not a thread of the step
  call("cudaEventSynchronize", 150, kLoop);   // between the steps, for the results of the first one
  const std::vector<RecordedStep> steps = StepReader().read(recording);
  EXPECT_EQ(steps[0].host_waits, 2);
  EXPECT_EQ(steps[1].host_waits, 0);
}

TEST(Steps, KernelsWithoutALaunchAreCounted) {
  MadeUp recording;
  add_eager(recording, 4, 0, 1000);
  recording.device.push_back({"stray", 1020, 1030, 7, 999});
  StepReader reader;
  EXPECT_EQ(reader.read(recording)[0].activities.size(), 5u);
  EXPECT_EQ(reader.without_launch(), 1);
}

// Adds the same step as a replay, as the device runs it. Collectives may be anywhere between the other kernels.
void add_replay(MadeUp& recording, int64_t number, int64_t host, int64_t device,
                const std::string& norm = "norm_kernel") {
  recording.user("step " + std::to_string(number), host, host + 10);
  recording.user("data", host + 1, host + 3);
  recording.kernel("fill", host + 2, device, device + 10);
  recording.graph_launch(host + 5);
  recording.replayed("ncclDevKernel_AllGather", device + 10, device + 30, 21);
  recording.replayed(norm, device + 12, device + 20, 9);
  recording.replayed("gemm", device + 30, device + 50, 9);
  recording.replayed("gemm", device + 50, device + 70, 9);
}

TEST(Steps, ReplaysAreNamedByTheEagerStepOfAnEarlierTrace) {
  StepReader reader;
  MadeUp eager;
  add_eager(eager, 3, 0, 1000);
  reader.read(eager);
  MadeUp replays;
  add_replay(replays, 10, 0, 5000);
  add_replay(replays, 11, 10, 5080);
  const std::vector<RecordedStep> steps = reader.read(replays);
  ASSERT_EQ(steps.size(), 2u);
  for (const RecordedStep& step : steps) {
    EXPECT_TRUE(step.replayed);
    EXPECT_EQ(step.difference, "");
    ASSERT_EQ(step.activities.size(), 5u);
    EXPECT_EQ(step.activities[0].origin.phase, "data");
    EXPECT_EQ(step.activities[1].origin.op, "all_gather");
    EXPECT_EQ(step.activities[2].origin.op, "rms_norm");
    EXPECT_EQ(step.activities[2].origin.level, "cuda");
    EXPECT_EQ(step.activities[2].origin.layer, 0);
    EXPECT_FALSE(step.activities[3].origin.backward);
    EXPECT_TRUE(step.activities[4].origin.backward);
    EXPECT_EQ(step.activities[4].origin.step, step.number);
  }
  EXPECT_EQ(steps[0].end, 5080);
}

// An eager memset is "Memset (Device)", and a replayed one "Memset (Unknown)".
TEST(Steps, AReplayedMemsetIsTheEagerOne) {
  StepReader reader;
  MadeUp eager;
  eager.user("step 3", 0, 100);
  eager.user("forward", 10, 40);
  eager.kernel("Memset (Device)", 20, 1000, 1010);
  reader.read(eager);
  MadeUp replays;
  replays.user("step 4", 200, 210);
  replays.graph_launch(205);
  replays.replayed("Memset (Unknown)", 5000, 5010);
  const std::vector<RecordedStep> steps = reader.read(replays);
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].difference, "");
  ASSERT_EQ(steps[0].activities.size(), 1u);
  EXPECT_EQ(steps[0].activities[0].origin.phase, "forward");
}

// Adds the eager step 3: all-gathers of two layers by copy engines among 3 ranks, and the layers' compute. A batch of
// copies to all other ranks is one record.
void add_eager_gathers(MadeUp& recording) {
  recording.user("step 3", 0, 100);
  recording.user("forward", 10, 90);
  const auto gather = [&](const std::string& label, int64_t host, int64_t device) {
    recording.user("all_gather " + label, host, host + 4);
    recording.kernel("Memcpy DtoD (Device -> Device)", host + 1, device, device + 2, kLoop, 20);
    recording.kernel("Memcpy PtoP (Device -> Device)", host + 2, device + 2, device + 8, kLoop, 20);
  };
  const auto compute = [&](int64_t layer, int64_t host, int64_t device) {
    recording.user("layer " + std::to_string(layer), host, host + 20);
    recording.user("rms_norm/cuda", host + 1, host + 4);
    recording.kernel("norm_kernel", host + 2, device, device + 5);
    recording.user("linear/cuda", host + 5, host + 12);
    recording.kernel("gemm", host + 6, device + 5, device + 10);
    recording.kernel("gemm", host + 7, device + 10, device + 15);
    recording.kernel("Memcpy DtoD (Device -> Device)", host + 8, device + 15, device + 16);
  };
  gather("blocks.0", 12, 1000);
  gather("blocks.1", 18, 1010);
  compute(0, 30, 1020);
  gather("blocks.2", 52, 1040);
  compute(1, 60, 1050);
}

// In a graph, each rank has a copy of its own, and a copy inside of the GPU is a kernel. A prefetched gather spreads
// over the layer before its own.
TEST(Steps, GathersByCopyEnginesThatSpreadOverALayerAreNamed) {
  MadeUp recording;
  add_eager_gathers(recording);
  recording.user("step 4", 200, 210);
  recording.graph_launch(205);
  const auto copies = [&](std::initializer_list<int64_t> starts) {
    for (const int64_t start : starts) recording.replayed("Memcpy PtoP (Device -> Device)", start, start + 4, 21);
  };
  recording.replayed("memcpy128", 5000, 5002, 21);
  copies({5002, 5006});
  for (const int64_t device : {5010, 5030}) {
    recording.replayed("norm_kernel", device, device + 5, 9);
    recording.replayed("gemm", device + 5, device + 10, 9);
    recording.replayed("gemm", device + 10, device + 15, 9);
    recording.replayed("memcpy128", device + 15, device + 16, 9);
  }
  recording.replayed("memcpy128", 5011, 5013, 21);
  copies({5013, 5018});
  recording.replayed("memcpy128", 5028, 5030, 21);  // in a gap of the compute
  copies({5033, 5050});                             // the second one is exposed
  const RecordedStep replay = StepReader().read(recording)[1];
  EXPECT_EQ(replay.difference, "");
  std::map<int64_t, int64_t> copied, computed;  // by layer
  for (const Activity& activity : replay.activities) {
    EXPECT_NE(activity.origin.op, "not matched") << activity.name << " at " << activity.start;
    const bool gathers = activity.origin.op == "all_gather";
    if (gathers && activity.name.starts_with("Memcpy PtoP")) ++copied[activity.origin.layer];
    if (!gathers && activity.name == "gemm") ++computed[activity.origin.layer];
  }
  EXPECT_EQ(copied, (std::map<int64_t, int64_t>{{0, 2}, {1, 2}, {2, 2}}));
  EXPECT_EQ(computed, (std::map<int64_t, int64_t>{{0, 2}, {1, 2}}));
  const StepTimes times = times_of(replay);
  EXPECT_EQ(times.other, 0);
  EXPECT_EQ(times.compute + times.exposed + times.idle, times.total);
  EXPECT_GE(times.communication, 6 * 4);
  EXPECT_GE(times.exposed, 8 + 4);  // the first gather, and the last copy
}

// On separate streams, a gather may overtake a reduction that was launched before it.
TEST(Steps, GathersThatOvertakeReductionsAreNamed) {
  MadeUp recording;
  recording.user("step 3", 0, 100);
  recording.user("backward", 10, 90);
  recording.user("reduce_scatter blocks.2", 20, 24);
  recording.kernel("ncclDevKernel_ReduceScatter_Sum", 21, 1000, 1010, kLoop, 20);
  recording.user("all_gather blocks.1", 30, 34);
  recording.kernel("ncclDevKernel_AllGather", 31, 1000, 1010, kLoop, 22);
  recording.user("step 4", 200, 210);
  recording.graph_launch(205);
  recording.replayed("ncclDevKernel_AllGather", 5000, 5010, 21);
  recording.replayed("ncclDevKernel_ReduceScatter_Sum", 5005, 5015, 23);
  const RecordedStep replay = StepReader().read(recording)[1];
  EXPECT_EQ(replay.difference, "");
  EXPECT_EQ(replay.activities[0].origin.op, "all_gather");
  EXPECT_EQ(replay.activities[1].origin.op, "reduce_scatter");
}

TEST(Steps, CollectivesThatAreNotMatchedAreCommunication) {
  MadeUp recording;
  add_eager(recording, 3, 0, 1000);
  add_replay(recording, 4, 200, 5000);
  recording.replayed("ncclDevKernel_AllReduce", 5070, 5080, 21);
  recording.replayed("Memcpy PtoP (Device -> Device)", 5080, 5085, 22);
  const RecordedStep replay = StepReader().read(recording)[1];
  EXPECT_EQ(replay.difference.find("other collectives: the replay has 1 kernels and the eager step 0"), 0u)
      << replay.difference;
  EXPECT_NE(replay.difference.find("; copies between GPUs: the replay has 1"), std::string::npos) << replay.difference;
  const StepTimes times = times_of(replay);
  EXPECT_EQ(times.communication, 20 + 15);
  EXPECT_EQ(times.difference, replay.difference);
  EXPECT_EQ(mean_of(std::vector{replay, replay}).difference, replay.difference);
}

TEST(Steps, AReplayThatDiffersIsReported) {
  MadeUp recording;
  add_eager(recording, 3, 0, 1000);
  add_replay(recording, 4, 200, 5000, "another_norm");
  const std::vector<RecordedStep> steps = StepReader().read(recording);
  EXPECT_EQ(steps[1].difference,
            "the replay has 3 kernels and the eager step 3; 1 of the replay have no match; the first difference is at "
            "0: another_norm instead of norm_kernel");
  EXPECT_EQ(steps[1].activities[2].origin.op, "not matched");
  EXPECT_EQ(steps[1].activities[3].origin.op, "linear");
}

TEST(Steps, AReplayWithoutAnEagerStepIsReported) {
  MadeUp recording;
  add_replay(recording, 4, 200, 5000);
  const std::vector<RecordedStep> steps = StepReader().read(recording);
  EXPECT_NE(steps[0].difference.find("the eager step 0; 3 of the replay have no match"), std::string::npos);
}

TEST(Steps, OnCpusFunctionsHaveTheirOwnTime) {
  MadeUp recording;
  recording.user("step 2", 0, 100);
  recording.user("forward", 10, 60);
  recording.user("linear/aten", 20, 50);
  recording.function("aten::addmm", 25, 45);
  recording.user("wait for all_gather blocks.0", 70, 90);
  const std::vector<RecordedStep> steps = StepReader().read(recording);
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_FALSE(steps[0].on_device);
  int64_t sum = 0;
  for (const Activity& activity : steps[0].activities) sum += activity.own;
  EXPECT_EQ(sum, 100);
  EXPECT_EQ(steps[0].activities[2].name, "linear/aten");
  EXPECT_EQ(steps[0].activities[2].own, 10);
  EXPECT_EQ(steps[0].activities[3].own, 20);
  EXPECT_EQ(steps[0].activities[3].origin.op, "linear");
  const StepTimes times = times_of(steps[0]);
  EXPECT_EQ(times.launches, 1);  // aten::addmm; what is no operator of LibTorch does not count
  EXPECT_EQ(times.exposed, 20);
  EXPECT_EQ(times.compute, 80);
  EXPECT_EQ(times.forward, 50);
  EXPECT_EQ(times.other, 30);
  EXPECT_EQ(times.idle, 0);
}

TEST(Steps, PhasesThatOverlapCountOnce) {
  MadeUp recording;
  recording.user("step 4", 0, 100);
  recording.user("forward", 10, 30);
  recording.kernel("gemm", 15, 1000, 1040);
  recording.kernel("gemm", 16, 1010, 1050, kLoop, 8);
  recording.user("backward", 30, 60);
  recording.kernel("gemm", 35, 1045, 1070);
  recording.user("optimizer", 60, 90);
  recording.kernel("adamw", 65, 1060, 1100);
  const StepTimes times = times_of(StepReader().read(recording)[0]);
  EXPECT_EQ(times.forward, 50);
  EXPECT_EQ(times.backward, 20);
  EXPECT_EQ(times.optimizer, 30);
  EXPECT_EQ(times.other, 0);
  EXPECT_EQ(times.compute, times.total);
}

TEST(Steps, MeansOfTheirTimes) {
  MadeUp recording;
  add_eager(recording, 4, 0, 1000);
  add_eager(recording, 5, 100, 1100);
  const StepTimes mean = mean_of(StepReader().read(recording));
  EXPECT_EQ(mean.total, 95);  // the mean of 100 and 90
  EXPECT_EQ(mean.forward, 30);
  EXPECT_EQ(mean.exposed, 20);
  EXPECT_EQ(mean.idle, 15);
  EXPECT_EQ(mean.launches, 5);
  EXPECT_EQ(mean_of({}).total, 0);
}

}  // namespace
}  // namespace strata::trainer::profile
