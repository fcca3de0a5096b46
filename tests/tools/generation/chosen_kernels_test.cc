// SPDX-License-Identifier: MIT
// Checks which levels --kernels gives generation, and what it refuses on CPUs.
#include "tools/generation/chosen_kernels.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/errors.h"
#include "base/files/temporary_folder.h"
#include "kernels/runtime/device_name.h"
#include "modules/config/kernel_selection.h"
#include "trainer/levels/kernel_plan.h"
#include "trainer/tasks/declared_model.h"

namespace strata::generation {
namespace {

using kernels::Level;

const at::TensorOptions kOptions = at::dtype(at::kFloat).device(at::kCPU);

// Its own level of attention does not count, and neither do its documents, its types and its sequence over ranks.
trainer::LoadedConfig run(const std::vector<std::string>& overrides = {}) {
  const std::string text =
      "run: {folder: unused, ranks: 2, device: cpu}\nsteps: 1\nbatch: 2\nmicro_batch: 1\n"
      "model: {type: transformer, family: llama, layers: 2, width: 32, heads: 2, feed_forward: 20, sequence: 32, "
      "vocabulary: 23}\n"
      "data: {type: text, train: unused, validation: unused, documents: separate}\n"
      "optimizer: {type: adamw, learning_rate: 1e-2}\nschedule: {type: constant}\n"
      "precision: {compute: bfloat16}\nkernels: {attention: torchscript}\n";
  return trainer::parse_trainer_config("resolved.yaml", text, overrides);
}

std::string refusal(const std::string& choice, const trainer::LoadedConfig& config) {
  try {
    chosen_kernels(choice, config, kOptions);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::configuration);
    return error.what();
  }
  return "nothing was refused";
}

TEST(ChosenKernels, AutoLeavesItToTheDecoder) { EXPECT_FALSE(chosen_kernels("auto", run(), kOptions)); }

TEST(ChosenKernels, ALevelIsForAllOps) {
  for (const Level level : {Level::aten, Level::torchscript}) {
    const auto kernels = chosen_kernels(std::string(name(level)), run(), kOptions);
    ASSERT_TRUE(kernels);
    for (const char* op : {"linear", "attention", "rms_norm", "rotary", "embedding", "activation"}) {
      EXPECT_EQ(level_for(*kernels, "blocks.1.attention", op), level) << op;
    }
  }
}

TEST(ChosenKernels, RefusesWhatDoesNotRun) {
  const std::string advice =
      "\nall ops of this model run with --kernels aten or --kernels torchscript; without --kernels, levels are chosen "
      "for each op";
  EXPECT_EQ(refusal("aot_inductor", run()),
            "override '--kernels aot_inductor': kernels.default: attention has no kernel at level aot_inductor on cpu "
            "(FlexAttention has no backward for CPUs); levels there: aten, torchscript" +
                advice);
  for (const std::string level : {"triton", "cuda"}) {
    const std::string message = refusal(level, run());
    EXPECT_NE(message.find(" has no kernel at level " + level + " on cpu ("), message.npos) << message;
    EXPECT_TRUE(message.ends_with(advice)) << message;
  }
  EXPECT_NE(refusal("best", run()).find("kernels.default: best needs a measured plan and kernels.plan names none"),
            std::string::npos);
}

// A plan has levels of ops that generation does not compute.
TEST(ChosenKernels, BestIsThePlanOfTheRun) {
  const TemporaryFolder folder;
  const trainer::LoadedConfig planned = run({"kernels={default: best, plan: " + folder.path() + "/plan.yaml}"});
  trainer::KernelPlan plan{"run.yaml", kernels::device_name(at::kCPU), kernels::torch_version(),
                           kernels::kernel_version(), trainer::model_version(planned.config)};
  plan.levels.each([](const char*, std::optional<Level>& level) { level = Level::torchscript; });
  plan.levels.rms_norm = Level::aten;
  plan.levels.linear_cross_entropy.reset();
  std::ofstream(folder.path() + "/plan.yaml") << yaml(plan);
  const auto kernels = chosen_kernels("best", planned, kOptions);
  ASSERT_TRUE(kernels);
  EXPECT_EQ(level_for(*kernels, "blocks.0.mlp.up", "linear"), Level::torchscript);
  EXPECT_EQ(level_for(*kernels, "blocks.0.mlp_norm", "rms_norm"), Level::aten);
  plan.levels.attention = Level::aot_inductor;
  std::ofstream(folder.path() + "/plan.yaml") << yaml(plan);
  EXPECT_NE(refusal("best", planned).find("attention has no kernel at level aot_inductor on cpu"), std::string::npos);
}

}  // namespace
}  // namespace strata::generation
