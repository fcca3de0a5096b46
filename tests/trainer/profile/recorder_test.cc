// SPDX-License-Identifier: MIT
// Checks that LibTorch's profiler records a small computation on the CPU, which is then attributed to op and layer.
#include "trainer/profile/recorder.h"

#include <ATen/ops/gelu.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "kernels/linear/linear_shape.h"
#include "kernels/runtime/call.h"
#include "trainer/profile/profiler.h"

namespace strata::trainer::profile {
namespace {

constexpr kernels::LinearShape kShape = {.rows = 8, .inputs = 8, .outputs = 8};

at::Tensor layer(const at::Tensor& x, const at::Tensor& weight) {
  const kernels::CallScope scope("linear", kernels::Level::aten, x, [] { return kShape; });
  return at::gelu(at::mm(x, weight));
}

TEST(Recorder, SeesOpsAndTheirBackwards) {
  const at::Tensor x = at::ones({8, 8}), weight = at::ones({8, 8}).requires_grad_(true);
  layer(x, weight).sum().backward();  // not recorded
  Recorder recorder(/*on_gpu=*/false);
  for (int round = 0; round < 2; ++round) {
    recorder.start();
    EXPECT_TRUE(recorder.recording());
    {
      at::RecordFunction step(at::RecordScope::USER_SCOPE);
      step.before(std::string("step 5"));
      layer(x, weight).sum().backward();
    }
    const Recording recording = recorder.stop();
    EXPECT_FALSE(recorder.recording());
    EXPECT_TRUE(recording.device.empty());
    const std::vector<RecordedStep> steps = StepReader().read(recording);
    ASSERT_EQ(steps.size(), 1u);
    EXPECT_EQ(steps[0].number, 5);
    bool forward = false, backward = false;
    for (const Activity& activity : steps[0].activities) {
      if (activity.origin.op != "linear") continue;
      EXPECT_EQ(activity.origin.level, "aten");
      const kernels::Work work = activity.origin.backward ? kShape.backward_work(4) : kShape.forward_work(4);
      EXPECT_EQ(activity.origin.work.bytes, work.bytes);
      EXPECT_EQ(activity.origin.work.flops, work.flops);
      forward = forward || (activity.name == "aten::gelu" && !activity.origin.backward);
      backward = backward || (activity.name == "GeluBackward0" && activity.origin.backward);
    }
    EXPECT_TRUE(forward);
    EXPECT_TRUE(backward);
  }
}

// Returns the scopes of this name in a recording of `run`.
std::vector<Scope> recorded(const std::string& name, const std::function<void()>& run) {
  Recorder recorder(/*on_gpu=*/false);
  recorder.start();
  run();
  std::vector<Scope> scopes = recorder.stop().scopes;
  std::erase_if(scopes, [&](const Scope& scope) { return scope.name != name; });
  return scopes;
}

TEST(Recorder, KnowsTheWorkOfABackwardOfTheOpsOwn) {
  const at::Tensor x = at::ones({8, 8}).to(at::kBFloat16);
  const std::vector<Scope> scopes = recorded("linear/cuda/backward", [&] {
    const kernels::CallScope scope("linear", kernels::Level::cuda, kernels::kBackward, x, [] { return kShape; });
  });
  ASSERT_EQ(scopes.size(), 1u);
  EXPECT_EQ(scopes[0].work.bytes, kShape.backward_work(2).bytes);
  EXPECT_EQ(scopes[0].work.flops, kShape.backward_work(2).flops);
  EXPECT_EQ(scopes[0].work_of_backward.flops, 0);
}

TEST(Recorder, LeavesTheWorkOpenIfNotAllCallsWereRecorded) {
  const at::Tensor x = at::ones({8, 8});
  const std::vector<Scope> scopes = recorded("linear/aten", [&] {
    std::thread([&] { layer(x, x); }).join();  // scopes of other threads are not recorded
    layer(x, x);
  });
  ASSERT_EQ(scopes.size(), 1u);
  EXPECT_EQ(scopes[0].work.flops, 0);
}

Profiler::Options options_of(const std::string& folder, std::vector<std::string>& told) {
  return {.steps = {3, 4},
          .folder = folder,
          .on_gpu = false,
          .device = {.name = "cpu"},
          .gather = [](const std::string& text) { return std::vector<std::string>{text}; },
          .tell = [&](const std::string& table) { told.push_back(table); }};
}

TEST(Profiler, WithoutAFolderItOnlyKnowsWhereTheTimeWent) {
  std::vector<std::string> told;
  Profiler profiler(options_of("", told));
  for (int64_t step = 3; step <= 4; ++step) {
    EXPECT_FALSE(profiler.mean_times());
    profiler.begin_step(step, /*last_eager_step=*/0);
    {
      at::RecordFunction forward(at::RecordScope::USER_SCOPE);
      forward.before(std::string("forward"));
      layer(at::ones({8, 8}), at::ones({8, 8}));
    }
    profiler.end_step(step);
  }
  profiler.finish();
  EXPECT_TRUE(told.empty());
  ASSERT_TRUE(profiler.mean_times());
  EXPECT_GT(profiler.mean_times()->forward, 0);
  EXPECT_LT(profiler.mean_times()->forward, profiler.mean_times()->total);
  EXPECT_EQ(profiler.mean_times()->backward, 0);
}

TEST(Profiler, ReportsTheStepsThatWereAskedFor) {
  std::vector<std::string> told;
  Profiler profiler(options_of(testing::TempDir() + "/profiled", told));
  const at::Tensor x = at::ones({8, 8}), weight = at::ones({8, 8}).requires_grad_(true);
  const modules::Layer wrapped =
      profiler.wrap_layer(2, [&](const modules::ResidualStream& stream, const modules::StepContext&) {
        return modules::ResidualStream{layer(stream.residual, weight), {}};
      });
  for (int64_t step = 1; step <= 6; ++step) {
    profiler.begin_step(step, /*last_eager_step=*/0);
    wrapped({x, {}}, {}).residual.sum().backward();
    profiler.end_step(step);
    EXPECT_EQ(told.size(), step < 4 ? 0u : 1u);
  }
  profiler.finish();
  ASSERT_EQ(told.size(), 1u);
  const std::string& table = told.front();
  EXPECT_NE(table.find("profile of steps 3-4"), std::string::npos) << table;
  EXPECT_NE(table.find("\n  2   "), std::string::npos) << "the layer is missing:\n" << table;
  EXPECT_NE(table.find("  linear                            backward    aten"), std::string::npos) << table;
  EXPECT_TRUE(profiler.mean_times());
}

// Pruned steps take longer, so a mean over dense and pruned steps is of no step at all.
TEST(Profiler, DenseAndPrunedStepsHaveTablesOfTheirOwn) {
  struct Case {
    int64_t pruned_from, first_step;
    std::vector<std::string> heads;
    int gathered;
  };
  const std::string pruned = "host timers, pruned weights; means", dense = "host timers; means";
  const std::vector<Case> cases = {
      {4,
       1,
       {"profile of steps 3-3, rank 0 of 1, cpu, " + dense, "profile of steps 4-4, rank 0 of 1, cpu, " + pruned},
       2},
      {4, 4, {"profile of steps 4-4, rank 0 of 1, cpu, " + pruned}, 2},
      {3, 1, {"profile of steps 3-4, rank 0 of 1, cpu, " + pruned}, 1},
      {5, 1, {"profile of steps 3-4, rank 0 of 1, cpu, " + dense}, 1}};
  for (const Case& c : cases) {
    std::vector<std::string> told;
    Profiler::Options options = options_of(testing::TempDir() + "/pruned", told);
    int gathered = 0;
    options.pruned_from = c.pruned_from;
    options.gather = [&](const std::string& text) {
      ++gathered;
      return std::vector<std::string>{text};
    };
    Profiler profiler(options);
    for (int64_t step = c.first_step; step <= 6; ++step) {
      profiler.begin_step(step, /*last_eager_step=*/0);
      layer(at::ones({8, 8}), at::ones({8, 8}));
      profiler.end_step(step);
    }
    ASSERT_EQ(told.size(), 1u);
    EXPECT_EQ(gathered, c.gathered) << "all ranks must gather as often, whatever steps they have";
    std::vector<std::string> heads;
    std::istringstream lines(told.front());
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("profile of")) heads.push_back(line.substr(0, line.find(" of a step")));
    }
    EXPECT_EQ(heads, c.heads) << told.front();
  }
}

// Other ranks wait in `gather` for a rank whose steps were not recorded.
TEST(Profiler, GathersOnceAlsoIfNoStepWasRecorded) {
  std::vector<std::string> told;
  Profiler::Options options = options_of(testing::TempDir() + "/empty", told);
  int gathered = 0;
  options.gather = [&](const std::string& text) {
    ++gathered;
    return std::vector<std::string>{text};
  };
  Profiler profiler(options);
  profiler.finish();
  EXPECT_EQ(gathered, 0) << "recording has not begun";
  // Step 2 is recorded for the names of its kernels alone, so this rank has no step of the profile.
  profiler.begin_step(2, /*last_eager_step=*/2);
  layer(at::ones({8, 8}), at::ones({8, 8}));
  profiler.finish();
  profiler.finish();
  EXPECT_EQ(gathered, 1);
  EXPECT_FALSE(profiler.mean_times());
  EXPECT_EQ(told.size(), 1u);
}

TEST(Profiler, AProfileThatCannotBeWrittenIsAWarning) {
  std::vector<std::string> told;
  const std::string folder = testing::TempDir() + "/a_file";
  std::ofstream(folder) << "no folder";
  Profiler profiler(options_of(folder, told));
  testing::internal::CaptureStderr();
  for (int64_t step = 3; step <= 4; ++step) {
    profiler.begin_step(step, /*last_eager_step=*/0);
    layer(at::ones({8, 8}), at::ones({8, 8}));
    profiler.end_step(step);
  }
  const std::string warning = testing::internal::GetCapturedStderr();
  EXPECT_NE(warning.find("warning: rank 0 cannot write its profile"), std::string::npos) << warning;
  EXPECT_NE(warning.find(folder), std::string::npos) << warning;
  EXPECT_EQ(told.size(), 1u) << "the table is printed all the same";
  EXPECT_TRUE(profiler.mean_times());
}

}  // namespace
}  // namespace strata::trainer::profile
