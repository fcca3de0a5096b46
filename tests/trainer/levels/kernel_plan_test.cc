// SPDX-License-Identifier: MIT
// Plans: written and read again, applied where no line names a level, refused where they are of something else.
#include "trainer/levels/kernel_plan.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "base/errors.h"
#include "modules/config/kernel_selection.h"
#include "tests/trainer/config/config_texts.h"
#include "trainer/levels/untimed_formats.h"
#include "trainer/tasks/declared_model.h"

namespace strata::trainer {
namespace {

using kernels::Level;

const PlanReader kHere{"A GPU", "2.11.0", "0123456789abcdef"};

LoadedConfig config(const std::string& kernels) {
  return parse_trainer_config("run.yaml", config_with(11, "kernels: " + kernels), {});
}

KernelPlan good_plan() {
  KernelPlan plan{"configs/run.yaml", kHere.device, kHere.torch, kHere.kernels,
                  model_version(config("{default: best}").config)};
  plan.levels.each([](const char*, std::optional<Level>& level) { level = Level::torchscript; });
  plan.levels.adamw = Level::aten;
  PlanRow timed{"add_rms_norm", "16x8", Level::cuda, 3};
  timed.key = "rms_norm";
  timed.forward = 12.5;
  timed.backward = 20;
  timed.error = 0.25;
  PlanRow refused{"linear", "16x8->24 gelu_tanh bias", Level::triton};
  refused.not_timed = "linear/triton: it said \"no\"";
  plan.measured = {timed, refused};
  return plan;
}

class Plans : public testing::Test {
 protected:
  void write(const KernelPlan& plan) { std::ofstream(path_) << yaml(plan); }
  void TearDown() override { std::remove(path_.c_str()); }

  std::string refusal(const KernelPlan& plan, const PlanReader& here = kHere) {
    write(plan);
    LoadedConfig loaded = config("{default: best, plan: " + path_ + "}");
    try {
      apply_kernel_plan(loaded, here);
      require_complete_plan(loaded, declared_model(loaded.config).modules);
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was refused";
  }

  const std::string path_ = testing::TempDir() + "plan.yaml";
};

TEST_F(Plans, AreReadAsTheyWereWritten) {
  write(good_plan());
  const KernelPlan plan = read_kernel_plan(path_);
  EXPECT_EQ(yaml(plan), yaml(good_plan()));
  EXPECT_EQ(plan.measured.at(0).key, "rms_norm");
  EXPECT_EQ(plan.measured.at(1).key, "") << "the name of the op";
  EXPECT_EQ(plan.measured.at(0).level, Level::cuda);
  EXPECT_EQ(plan.measured.at(0).backward, 20);
  EXPECT_EQ(plan.measured.at(1).not_timed, "linear/triton: it said \"no\"");
  EXPECT_FALSE(plan.measured.at(1).forward);
}

TEST_F(Plans, WithoutLevelsAreReadAsTheyWereWritten) {
  const KernelPlan empty{"configs/run.yaml", "cpu", "2.11.0", "0123456789abcdef", "0123456789abcdef"};
  write(empty);
  EXPECT_EQ(yaml(read_kernel_plan(path_)), yaml(empty));
}

TEST_F(Plans, FromBeforeALevelWasRenamedAreOfOtherKernels) {
  std::string text = yaml(good_plan());
  const std::string now = "\n  sum_of_squares: ";
  text.replace(text.find(now), now.size(), "\n  global_norm: ");
  std::ofstream(path_) << text;
  EXPECT_EQ(read_kernel_plan(path_).levels.sum_of_squares, Level::torchscript);
  LoadedConfig loaded = config("{default: best, plan: " + path_ + "}");
  try {
    apply_kernel_plan(loaded, {kHere.device, kHere.torch, "fedcba9876543210"});
    FAIL() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("it was measured for kernels of version"), std::string::npos)
        << error.what();
  }
}

TEST_F(Plans, FillWhatNoLineNames) {
  write(good_plan());
  LoadedConfig loaded = config("{default: best, linear: triton, plan: " + path_ + "}");
  apply_kernel_plan(loaded, kHere);
  const modules::KernelsConfig& kernels = loaded.config.kernels;
  EXPECT_EQ(kernels.levels.linear, Level::triton);
  EXPECT_EQ(kernels.levels.rms_norm, Level::torchscript);
  EXPECT_EQ(kernels.levels.adamw, Level::aten);
  EXPECT_FALSE(kernels.default_level);
  // The resolved configuration names every level and where it is from.
  const std::string resolved = loaded.resolved();
  EXPECT_NE(resolved.find("rms_norm: torchscript"), std::string::npos) << resolved;
  EXPECT_NE(resolved.find(path_), std::string::npos) << resolved;
}

TEST_F(Plans, NeedNoLevelOfWhatTheModelDoesNotCompute) {
  KernelPlan plan = good_plan();
  plan.levels.layer_norm.reset();
  plan.levels.linear_cross_entropy.reset();
  write(plan);
  LoadedConfig loaded = config("{default: best, plan: " + path_ + "}");
  apply_kernel_plan(loaded, kHere);
  require_complete_plan(loaded, declared_model(loaded.config).modules);
  EXPECT_FALSE(loaded.config.kernels.levels.layer_norm);
  EXPECT_TRUE(loaded.config.kernels.planned);
  // The head and the loss are two ops now.
  plan.levels.cross_entropy.reset();
  EXPECT_NE(refusal(plan).find("it has no level of cross_entropy"), std::string::npos);
  plan.levels.linear_cross_entropy = Level::cuda;
  EXPECT_EQ(refusal(plan), "nothing was refused");
}

TEST_F(Plans, MayHaveTheLossApartWhereALineFusesIt) {
  KernelPlan plan = good_plan();
  plan.levels.linear_cross_entropy.reset();
  write(plan);
  LoadedConfig loaded = config("{default: best, linear_cross_entropy: aten, plan: " + path_ + "}");
  apply_kernel_plan(loaded, kHere);
  EXPECT_EQ(loaded.config.kernels.levels.linear_cross_entropy, Level::aten);
  EXPECT_FALSE(loaded.config.kernels.levels.cross_entropy) << "no module computes it";
}

class PlansOfFormats : public Plans {
 protected:
  static LoadedConfig config_in_fp8(const std::string& kernels) {
    return parse_trainer_config(
        "run.yaml",
        config_with(
            {{9, "precision: {compute: bfloat16, linear: {format: fp8, keep: [first]}}"}, {11, "kernels: " + kernels}}),
        {});
  }
  static KernelPlan plan_in_fp8() {
    KernelPlan plan = good_plan();
    plan.model = model_version(config_in_fp8("{default: best}").config);
    plan.levels.linear = Level::cuda;
    plan.keep = {"attention.output", "mlp.down"};
    plan.formats = {{{"attention.output", "mlp.down"}, "128x64->64", 8, 42, 79, 37, 80}};
    return plan;
  }
};

TEST_F(PlansOfFormats, AreReadAsTheyWereWritten) {
  write(plan_in_fp8());
  const KernelPlan plan = read_kernel_plan(path_);
  EXPECT_EQ(yaml(plan), yaml(plan_in_fp8()));
  EXPECT_EQ(plan.keep, plan_in_fp8().keep);
  EXPECT_EQ(plan.formats.at(0).compute_backward, 80);
}

TEST_F(PlansOfFormats, KeepWhatIsNotFaster) {
  write(plan_in_fp8());
  LoadedConfig loaded = config_in_fp8("{default: best, plan: " + path_ + "}");
  EXPECT_EQ(apply_kernel_plan(loaded, kHere),
            path_ + ": attention.output, mlp.down multiply in bfloat16, because fp8 current was not faster there");
  const modules::LinearFormatsConfig& formats = loaded.config.precision.linear;
  EXPECT_TRUE(formats.of("blocks.1.attention.qkv"));
  EXPECT_FALSE(formats.of("blocks.1.mlp.down"));
  EXPECT_FALSE(formats.of("blocks.0.attention.qkv")) << "the user keeps the first block";
  EXPECT_NE(loaded.resolved().find("keep: [blocks.0, attention.output, mlp.down]  # " + path_), std::string::npos)
      << loaded.resolved();
  EXPECT_EQ(untimed_formats(loaded, declared_model(loaded.config).modules), "") << "the plan has measured it";
  // A run that names the level of linear takes all layers at its word.
  LoadedConfig named = config_in_fp8("{default: best, linear: cuda, plan: " + path_ + "}");
  EXPECT_EQ(apply_kernel_plan(named, kHere), "");
  EXPECT_TRUE(named.config.precision.linear.of("blocks.1.mlp.down"));
}

TEST_F(PlansOfFormats, MayKeepOnlyWhatTheModelHas) {
  KernelPlan plan = plan_in_fp8();
  plan.keep = {"mlp.dawn"};
  write(plan);
  LoadedConfig loaded = config_in_fp8("{default: best, plan: " + path_ + "}");
  apply_kernel_plan(loaded, kHere);
  try {
    require_complete_plan(loaded, declared_model(loaded.config).modules);
    FAIL() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("in its keep "), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("mlp.down"), std::string::npos) << error.what();
  }
}

TEST_F(Plans, StandBelowLinesForModules) {
  KernelPlan plan = good_plan();
  plan.levels.linear = Level::cuda;
  write(plan);
  LoadedConfig loaded =
      config("{default: best, plan: " + path_ + ", modules: [{only: mlp.down, linear: torchscript}]}");
  apply_kernel_plan(loaded, kHere);
  const modules::KernelsConfig& kernels = loaded.config.kernels;
  EXPECT_EQ(modules::kernels_for(kernels, "blocks.0.mlp.down").linear, Level::torchscript);
  EXPECT_EQ(modules::kernels_for(kernels, "blocks.0.mlp.gate_up").linear, Level::cuda);
  EXPECT_TRUE(kernels.levels.linear_cross_entropy) << "as the plan has it";

  // A level of the head is that of a head which is an op of its own.
  LoadedConfig apart = config("{default: best, plan: " + path_ + ", modules: [{only: head, linear: torchscript}]}");
  apply_kernel_plan(apart, kHere);
  EXPECT_FALSE(apart.config.kernels.levels.linear_cross_entropy);
  EXPECT_EQ(modules::kernels_for(apart.config.kernels, "head").linear, Level::torchscript);
}

TEST_F(Plans, LeaveARunThatAsksForALevelAlone) {
  LoadedConfig loaded = config("{default: torchscript}");
  apply_kernel_plan(loaded, kHere);
  EXPECT_EQ(loaded.config.kernels.default_level, Level::torchscript);
  EXPECT_FALSE(loaded.config.kernels.levels.linear);
}

TEST_F(Plans, OfSomethingElseAreRefusedNamingBoth) {
  const std::string cannot = "kernels.default: best cannot use " + path_ + ": it was measured for ";
  const std::string hint = "; make a plan with: tools/strata plan run.yaml";
  EXPECT_EQ(refusal(good_plan()), "nothing was refused");
  EXPECT_EQ(refusal(good_plan(), {"Another", kHere.torch, kHere.kernels}),
            cannot + "the device A GPU, this is Another" + hint);
  EXPECT_EQ(refusal(good_plan(), {kHere.device, "2.12.0", kHere.kernels}),
            cannot + "LibTorch 2.11.0, this is 2.12.0" + hint);
  EXPECT_EQ(refusal(good_plan(), {kHere.device, kHere.torch, "ffff"}),
            cannot + "kernels of version 0123456789abcdef, this is ffff" + hint);
  KernelPlan plan = good_plan();
  plan.model = "1234";
  EXPECT_NE(refusal(plan).find("a model of hash 1234, this is "), std::string::npos);
  plan = good_plan();
  plan.levels.rotary.reset();
  EXPECT_EQ(refusal(plan), "kernels.default: best cannot use " + path_ + ": it has no level of rotary" + hint);
}

TEST_F(Plans, AreMadeByACommandWithTheOverridesThatTheyDependOn) {
  LoadedConfig none = parse_trainer_config(
      "run.yaml", config_with(11, "kernels: {default: best}"),
      {"micro_batch=1", "model.norm_epsilon=2e-5", "layers=[{only: 1, attention: full}]", "run.seed=3",
       "precision={compute: bfloat16}", "precision.linear.format=fp8", "run.device=cpu"});
  try {
    apply_kernel_plan(none, kHere);
    FAIL() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_NE(
        std::string(error.what())
            .find("; make a plan with: tools/strata plan run.yaml 'layers=[{only: 1, attention: full}]' "
                  "micro_batch=1 "
                  "model.norm_epsilon=2e-5 'precision={compute: bfloat16}' precision.linear.format=fp8 run.device=cpu"),
        std::string::npos)
        << error.what();
  }
}

TEST_F(Plans, AreMadeByACommandThatTakesThePatternsOfLayersAway) {
  const std::vector<ReplacedLine> lines = {{11, "kernels: {default: best}"},
                                           {14, "layers: [{only: 1, attention: full}]"}};
  LoadedConfig none = parse_trainer_config("run.yaml", config_with(lines), {"layers=[]"});
  try {
    apply_kernel_plan(none, kHere);
    FAIL() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what()).ends_with("; make a plan with: tools/strata plan run.yaml 'layers=[]'"))
        << error.what();
  }
}

TEST(ModelVersion, DependsOnThePatternsOfLayers) {
  const auto version = [](const std::vector<std::string>& overrides) {
    return model_version(parse_trainer_config("run.yaml", config_with(0, ""), overrides).config);
  };
  EXPECT_EQ(version({"layers=[]"}), version({}));
  EXPECT_NE(version({"layers=[{only: 1, attention: full}]"}), version({}));
  EXPECT_EQ(version({"data.documents=joined"}), version({}));
  EXPECT_NE(version({"data.documents=separate"}), version({}));
}

// A format adds products to the backward, and makes an activation that was an epilogue an op of its own.
TEST(ModelVersion, DependsOnTheNumberFormatsOfLinearLayers) {
  const auto version = [](const std::string& linear) {
    const std::string text = config_with(9, "precision: {linear: {" + linear + "}}");
    return model_version(parse_trainer_config("run.yaml", text, {}).config);
  };
  EXPECT_NE(version("format: fp8"), version("format: none"));
  EXPECT_NE(version("format: fp8, scaling: row"), version("format: fp8"));
  EXPECT_NE(version("format: fp8, only: mlp"), version("format: fp8"));
  EXPECT_NE(version("format: fp8, keep: [first]"), version("format: fp8"));
}

TEST_F(Plans, ThatAreMissingOrMalformedAreRefused) {
  LoadedConfig none = config("{default: best}");
  EXPECT_THROW(apply_kernel_plan(none, kHere), Error);
  LoadedConfig missing = config("{default: best, plan: /nowhere/plan.yaml}");
  EXPECT_THROW(apply_kernel_plan(missing, kHere), Error);
  std::ofstream(path_) << yaml(good_plan()) << "more: 1\n";
  EXPECT_THROW(read_kernel_plan(path_), Error);
}

}  // namespace
}  // namespace strata::trainer
