// SPDX-License-Identifier: MIT
#include "trainer/config/load_config.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <tuple>

#include "configs/config_errors.h"
#include "tests/trainer/config/config_texts.h"

namespace strata::trainer {
namespace {

using Overrides = std::vector<std::string>;

TrainerConfig parsed(const std::string& text, const Overrides& overrides = {}) {
  return parse_trainer_config("run.yaml", text, overrides).config;
}

const modules::TransformerConfig& transformer(const TrainerConfig& config) {
  return std::get<modules::TransformerConfig>(config.model.type);
}

TEST(LoadConfig, ReadsEveryKindOfValue) {
  const TrainerConfig config = parsed(config_with(14, "fault: {kind: none}"),
                                      {"run.seed=7",
                                       "kernels={rms_norm: torchscript, layers: [{only: 0-1, linear: "
                                       "aten}, {only: 3, linear: torchscript}]}",
                                       "gradient_checkpointing=[0-1, 3]", "schedule={type: wsd, decay: 20}"});
  EXPECT_EQ(config.run.folder, "runs/test");
  EXPECT_EQ(config.run.seed, 7);
  EXPECT_EQ(config.run.timeout, 300);
  EXPECT_EQ(config.optimizer.learning_rate, 1e-3);
  EXPECT_EQ(transformer(config).layers, 4);
  EXPECT_EQ(transformer(config).head_width_or_default(), 16);
  EXPECT_EQ(std::get<WsdSchedule>(config.schedule.type).decay, 20);
  EXPECT_EQ(config.kernels.default_level, kernels::Level::aten);
  EXPECT_EQ(config.kernels.levels.rms_norm, kernels::Level::torchscript);
  EXPECT_EQ(config.kernels.levels.linear, std::nullopt);
  ASSERT_EQ(config.kernels.layers.size(), 2u);
  EXPECT_EQ(config.kernels.layers[0].only, (Range{0, 1}));
  EXPECT_EQ(config.kernels.layers[1].only, (Range{3, 3}));
  EXPECT_EQ(config.kernels.layers[1].levels.linear, kernels::Level::torchscript);
  EXPECT_EQ(config.gradient_checkpointing.of(1), Recompute::full);
  EXPECT_EQ(config.gradient_checkpointing.of(2), Recompute::none);
  EXPECT_EQ(config.micro_batches(), 2);
}

TEST(LoadConfig, NumbersAsPeopleWriteThem) {
  EXPECT_EQ(parsed(config_with(2, "steps: 1e9")).steps, 1'000'000'000);
  EXPECT_EQ(parsed(config_with(2, "steps: 10_000")).steps, 10'000);
  EXPECT_EQ(parsed(config_with(2, "steps: 1.5e3")).steps, 1500);
  EXPECT_EQ(parsed(config_with(2, "steps: +100")).steps, 100);
  EXPECT_EQ(parsed(config_with(0, ""), {"optimizer.learning_rate=.5"}).optimizer.learning_rate, 0.5);
  EXPECT_EQ(parsed(config_with(0, ""), {"optimizer.learning_rate=1"}).optimizer.learning_rate, 1);
  EXPECT_TRUE(parsed(config_with(0, ""), {"run.deterministic=yes"}).run.deterministic);
}

TEST(LoadConfig, WindowsLineEndsAndAnchorsAreFine) {
  std::string text = config_with(0, "");
  for (size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 2)) text.insert(at, "\r");
  EXPECT_EQ(parsed(text).batch, 16);
  const TrainerConfig config = parsed(config_with(13, "evaluation: {every: &often 25}\nlog: {every: *often}"));
  EXPECT_EQ(config.evaluation.every, 25);
  EXPECT_EQ(config.log.every, 25);
}

TEST(LoadConfig, LaterOverridesWin) {
  EXPECT_EQ(parsed(config_with(0, ""), {"steps=200", "steps=300"}).steps, 300);
  const TrainerConfig config = parsed(config_with(0, ""), {"optimizer.betas=[0.8, 0.9]", "optimizer.betas.1=0.99"});
  EXPECT_EQ(std::get<AdamW>(config.optimizer.type).betas, (std::array<double, 2>{0.8, 0.99}));
}

TEST(LoadConfig, AnOverrideReplacesAWrongValue) {
  EXPECT_EQ(parsed(config_with(2, "steps: many"), {"steps=5", "schedule.warmup=1"}).steps, 5);
}

TEST(LoadConfig, EveryValueHasItsOrigin) {
  const LoadedConfig loaded = parse_trainer_config("run.yaml", config_with(0, ""), {"optimizer.betas=[0.8, 0.9]"});
  std::map<std::string, configs::Line> lines;
  for (const configs::Line& line : loaded.lines()) lines[line.path] = line;
  EXPECT_EQ(lines.at("steps").origin, "run.yaml:2");
  EXPECT_EQ(lines.at("schedule.type").value, "cosine");
  EXPECT_EQ(lines.at("schedule.type").origin, "run.yaml:8");
  EXPECT_EQ(lines.at("optimizer.betas").value, "[0.8, 0.9]");
  EXPECT_EQ(lines.at("optimizer.betas").origin, "override");
  EXPECT_EQ(lines.at("run.seed").origin, "default");
}

TEST(LoadConfig, FaultsNeedTheEnvironment) {
  const std::string text = config_with(14, "fault: {at: step 7 rank 1, kind: kill}");
  ::setenv("STRATA_FAULTS", "1", 1);
  EXPECT_EQ(parsed(text).fault.kind, Fault::kill);
  for (const char* place :
       {"tomorrow", "step 7", "step 7 rank 1 layer", "step 7 rank 1 layer 2 or so", "step 0 rank 1"}) {
    EXPECT_THROW(parsed(text, {std::string("fault.at=") + place}), configs::ConfigErrors) << place;
  }
  const std::optional<FaultPlace> place = parse_fault_place(parsed(text, {"fault.at=step 7 rank 1 layer 2"}).fault.at);
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(std::tuple(place->step, place->rank, place->layer), std::tuple(7, 1, 2));
  // A rollback because of step 6 comes to step 7 for the first time, and one because of step 7 for the second.
  const FaultConfig passes = parsed(text).fault, repeats = parsed(text, {"fault.repeats_after_rollback=true"}).fault;
  EXPECT_EQ(passes.after_rollback(6).kind, Fault::kill);
  EXPECT_EQ(passes.after_rollback(7).kind, Fault::none);
  EXPECT_EQ(repeats.after_rollback(7).kind, Fault::kill);
  ::setenv("STRATA_FAULTS", "0", 1);
  EXPECT_THROW(parsed(text), configs::ConfigErrors);
  ::unsetenv("STRATA_FAULTS");
  EXPECT_THROW(parsed(text), configs::ConfigErrors);
}

TEST(LoadConfig, FilesThatCannotBeRead) {
  const auto report = [](const std::string& path) {
    try {
      load_trainer_config(path, {});
    } catch (const configs::ConfigErrors& errors) {
      return std::string(errors.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(report("nowhere.yaml"), "nowhere.yaml:1:1: cannot read the configuration: No such file or directory\n");
  EXPECT_EQ(report("/"), "/:1:1: expected a file, got a folder or a device\n");
  const std::string large = testing::TempDir() + "/large.yaml";
  std::ofstream(large) << std::string(10'000'000, '#');
  const double start = processor_milliseconds();
  EXPECT_EQ(report(large), large + ":1:1: expected a configuration of at most 1 MiB, got 10000000 bytes\n");
  EXPECT_LT(processor_milliseconds() - start, 100);
}

// A resolved configuration that is read again is the same, also for unusual values.
TEST(ResolvedConfig, RoundTrip) {
  std::vector<std::pair<std::string, Overrides>> cases = {
      {config_with(0, ""), {}},
      {config_with(0, ""), {"run.folder=\"a: \\\"b\\\" #\\\\c\"", "data.train=\"data/[0-9]*.bin\"", "run.seed=1e15"}},
      {config_with(0, ""), {"run.folder='12'", "data.train='null'", "data.validation=' yes '"}},
      {config_with(0, ""),
       {"layers=[{only: 0-2 step 2, attention: causal & window(8)}, {only: 1, attention: full}]",
        "kernels={attention: aten, layers: [{only: 0-1, linear: torchscript, rms_norm: aten}, {only: 3}]}",
        "gradient_checkpointing=[0-1, 3, 0-2 step 2 selective]"}},
      {config_with(0, ""), {"optimizer.learning_rate=0.1234567890123456789", "optimizer.gradient_clip=3e-300"}},
      {config_with(0, ""), {"schedule={type: constant}", "gradient_checkpointing=full", "gradient_checkpointing=[]"}},
  };
  for (const auto& entry : std::filesystem::directory_iterator("configs")) {
    if (entry.path().extension() != ".yaml") continue;
    std::ifstream file(entry.path());
    cases.push_back({{std::istreambuf_iterator<char>(file), {}}, {}});
  }
  EXPECT_GE(cases.size(), 11u);
  for (const auto& [text, overrides] : cases) {
    const LoadedConfig loaded = parse_trainer_config("run.yaml", text, overrides);
    const std::string resolved = loaded.resolved();
    const LoadedConfig again = parse_trainer_config("resolved.yaml", resolved, {});
    ASSERT_EQ(loaded.lines().size(), again.lines().size()) << resolved;
    for (size_t i = 0; i < loaded.lines().size(); ++i) {
      EXPECT_EQ(loaded.lines()[i].path, again.lines()[i].path);
      EXPECT_EQ(loaded.lines()[i].value, again.lines()[i].value);
      EXPECT_EQ(loaded.lines()[i].plain, again.lines()[i].plain);
    }
  }
}

TEST(LoadConfig, PatternsOfLayers) {
  const auto model_with = [](const std::string& layers) {
    return transformer(parsed(config_with(14, "layers: " + layers)));
  };
  const auto model = model_with(
      "[{only: 0-3 step 2, attention: causal & window(8)}, {only: 3, attention: full}, {only: 2-3, attention: full}]");
  const std::vector<std::string> expected = {"causal & window(8)", "causal", "full", "full"};
  for (int64_t layer = 0; layer < 4; ++layer) EXPECT_EQ(model.attention_of(layer), expected.at(layer)) << layer;
  EXPECT_EQ(model_with("[]").attention_of(3), "causal");
}

TEST(ResolvedConfig, NestedYamlWithOrigins) {
  const LoadedConfig loaded = parse_trainer_config(
      "run.yaml", config_with(11, "kernels: {layers: [{only: 0-1, linear: aten}]}"), {"run.seed=3"});
  const std::string resolved = loaded.resolved();
  EXPECT_NE(resolved.find("run:\n  folder: runs/test  # run.yaml:1\n  seed: 3  # override\n"), std::string::npos);
  EXPECT_NE(resolved.find("  layers:\n    - only: 0-1  # run.yaml:11\n      linear: aten  # run.yaml:11\n"),
            std::string::npos)
      << resolved;
}

TEST(ConfigDifferences, WhatForbidsResuming) {
  const std::string before = parse_trainer_config("run.yaml", config_with(0, ""), {}).resolved();
  const auto differences = [&](const Overrides& overrides) {
    return differences_that_forbid_resuming(before, parsed(config_with(0, ""), overrides), 5);
  };
  EXPECT_EQ(differences({"run.ranks=4", "run.folder=elsewhere", "checkpoint.every=7", "evaluation.every=3",
                         "log.every=1", "profile.steps=none", "micro_batch=2", "run.stop_after=5", "run.restarts=3",
                         "run.device=cpu", "run.threads=3", "run.deterministic=true", "run.timeout=7",
                         "run.on_nonfinite=skip", "run.overwrite=true"}),
            std::vector<std::string>{});
  EXPECT_EQ(differences({"run.ranks=4", "micro_batch=2",
                         "sharding={strategy: hybrid, shard_ranks: 2, reshard_after_forward: false, prefetch: 2, "
                         "accumulate: full, gather: copy_engines}"}),
            std::vector<std::string>{});
  EXPECT_EQ(differences({"run.seed=9", "run.ranks=4"}), std::vector<std::string>{"run.seed: was 1, now 9"});
  EXPECT_EQ(differences({"steps=200", "kernels.layers=[{only: 1, linear: torchscript}]"}),
            (std::vector<std::string>{"steps: was 100, now 200", "kernels.layers.0.only: was absent, now 1",
                                      "kernels.layers.0.linear: was absent, now torchscript",
                                      "kernels.layers: was [], now absent"}));
  EXPECT_EQ(
      differences({"layers=[{only: 0-2 step 2, attention: full}]"}),
      (std::vector<std::string>{
          "layers.0.only: was absent, now 0-2 step 2", "layers.0.attention: was absent, now full",
          "layers.0.rotary_scaling.type: was absent, now none", "layers.0.rotary_scaling.factor: was absent, now 32",
          "layers.0.rotary_scaling.low_frequency: was absent, now 1",
          "layers.0.rotary_scaling.high_frequency: was absent, now 4",
          "layers.0.rotary_scaling.original_sequence: was absent, now 8192",
          "layers.0.rotary_scaling.beta_fast: was absent, now 32",
          "layers.0.rotary_scaling.beta_slow: was absent, now 1",
          "layers.0.rotary_scaling.attention_factor: was absent, now 0", "layers: was [], now absent"}));
  const std::string of_layers =
      parse_trainer_config("run.yaml", config_with(14, "layers: [{only: 1, rotary_base: 100}]"), {}).resolved();
  const auto differences_of_layers = [&](const std::string& entry) {
    return differences_that_forbid_resuming(of_layers, parsed(config_with(14, "layers: [" + entry + "]")), 5);
  };
  EXPECT_EQ(differences_of_layers("{only: 1, rotary_base: 100}"), std::vector<std::string>{});
  EXPECT_EQ(differences_of_layers("{only: 1, rotary_base: 50}"),
            std::vector<std::string>{"layers.0.rotary_base: was 100, now 50"});
  EXPECT_EQ(
      differences({"schedule={type: constant, warmup: 10}"}),
      (std::vector<std::string>{"schedule.type: was cosine, now constant", "schedule.final: was 0.1, now absent"}));
}

TEST(ConfigDifferences, AKeyThatTheSavedRunLacksHasItsDefault) {
  const std::string text =
      config_with({{3, "batch: 1"},
                   {4, "micro_batch: 1"},
                   {5, "model: {type: graph_network, convolution: gin, features: 9, layers: 4, width: 64, classes: 7}"},
                   {6, "data: {type: graph, file: a.npz}"},
                   {13, "evaluation: {every: 50}"}});
  std::string before = parse_trainer_config("run.yaml", text, {}).resolved();
  const size_t begin = before.find("  activation: relu");
  ASSERT_NE(begin, std::string::npos) << before;
  before.erase(begin, before.find('\n', begin) + 1 - begin);
  EXPECT_EQ(differences_that_forbid_resuming(before, parsed(text), 5), std::vector<std::string>{});
  EXPECT_EQ(differences_that_forbid_resuming(before, parsed(text, {"model.activation=silu"}), 5),
            std::vector<std::string>{"model.activation: was relu, now silu"});
}

// Returns why a run of 100 steps may not go on after `done` steps with another number of them.
std::vector<std::string> differences_of_steps(const std::string& schedule, int64_t done, const std::string& steps) {
  const Overrides before = {"schedule=" + schedule}, now = {"schedule=" + schedule, "steps=" + steps};
  const std::string resolved = parse_trainer_config("run.yaml", config_with(0, ""), before).resolved();
  return differences_that_forbid_resuming(resolved, parsed(config_with(0, ""), now), done);
}

TEST(ConfigDifferences, ARunMayHaveOtherStepsIfTheRatesOfThoseDoneStay) {
  const std::string wsd = "{type: wsd, warmup: 5, decay: 10}";
  for (const int64_t done : {0, 7, 100}) {
    EXPECT_EQ(differences_of_steps("{type: constant, warmup: 10}", done, "200"), std::vector<std::string>{});
    for (const char* schedule : {"{type: cosine}", "{type: linear}"}) {
      EXPECT_EQ(differences_of_steps(schedule, done, "200"), std::vector<std::string>{"steps: was 100, now 200"});
    }
  }
  for (const int64_t done : {0, 7, 90}) EXPECT_EQ(differences_of_steps(wsd, done, "200"), std::vector<std::string>{});
  for (const int64_t done : {91, 100}) {
    EXPECT_EQ(differences_of_steps(wsd, done, "200"),
              std::vector<std::string>{"steps: was 100, now 200; the saved step " + std::to_string(done) +
                                       " is in the decay of the schedule, and a checkpoint of step 90 or an earlier "
                                       "one would go on"});
  }
  EXPECT_EQ(differences_of_steps(wsd, 40, "50"), std::vector<std::string>{});
  EXPECT_EQ(differences_of_steps(wsd, 41, "50"),
            std::vector<std::string>{"steps: was 100, now 50; the saved step 41 is in the decay of the schedule, and a "
                                     "checkpoint of step 40 or an earlier one would go on"});
}

// Returns why a run of 100 steps may not go on after `done` steps with another sparsity.
std::vector<std::string> differences_of_sparsity(const std::string& before, int64_t done, const std::string& now) {
  const std::string model = "model.feed_forward=64";
  const std::string resolved =
      parse_trainer_config("run.yaml", config_with(0, ""), {model, "sparsity=" + before}).resolved();
  return differences_that_forbid_resuming(resolved, parsed(config_with(0, ""), {model, "sparsity=" + now}), done);
}

TEST(ConfigDifferences, ARunMayHaveAnotherSparsityIfTheStepsDoneStayDense) {
  const std::vector<std::string> none;
  const std::string dense = "{pattern: none}", later = "{pattern: 2:4, only: mlp, from_step: 8}";
  for (const int64_t done : {0, 5, 7}) {
    EXPECT_EQ(differences_of_sparsity(dense, done, later), none) << done;
    EXPECT_EQ(differences_of_sparsity(later, done, dense), none) << done;
    EXPECT_EQ(differences_of_sparsity(later, done, "{pattern: 2:4, decay: 0, from_step: 9}"), none) << done;
  }
  EXPECT_EQ(
      differences_of_sparsity(dense, 8, "{pattern: 2:4, from_step: 8}"),
      (std::vector<std::string>{"sparsity.pattern: was none, now \"2:4\"; with sparsity.from_step: 9 or later, the "
                                "saved step 8 would go on with pruned weights",
                                "sparsity.from_step: was 1, now 8"}));
  EXPECT_EQ(differences_of_sparsity(later, 8, "{pattern: 2:4, only: mlp, from_step: 9}"),
            std::vector<std::string>{"sparsity.from_step: was 8, now 9"});
  EXPECT_EQ(differences_of_sparsity(later, 7, "{pattern: 2:4, only: mlp}"),
            std::vector<std::string>{"sparsity.from_step: was 8, now 1"});
  EXPECT_EQ(differences_of_sparsity("{pattern: 2:4}", 0, dense),
            std::vector<std::string>{"sparsity.pattern: was \"2:4\", now none"});
  // No step is saved that would go on, so no later from_step is advised.
  EXPECT_EQ(differences_of_sparsity(dense, 0, "{pattern: 2:4}"),
            std::vector<std::string>{"sparsity.pattern: was none, now \"2:4\""});
}

TEST(ConfigDifferences, ARunThatBecomesSparseMayHaveAnotherPlanWithTheSameLevels) {
  const auto differences_of = [](const std::string& before, const std::string& now, const std::string& sparsity) {
    const std::string model = "model.feed_forward=64";
    const std::string resolved =
        parse_trainer_config("run.yaml", config_with(0, ""),
                             {model, "kernels={default: best, plan: dense.yaml, " + before + "}"})
            .resolved();
    return differences_that_forbid_resuming(
        resolved,
        parsed(config_with(0, ""),
               {model, "kernels={default: best, plan: sparse.yaml, " + now + "}", "sparsity=" + sparsity}),
        5);
  };
  const std::string later = "{pattern: 2:4, from_step: 6}", both = "linear: aten, activation: aten";
  const std::vector<std::string> none;
  EXPECT_EQ(differences_of("linear: aten", "linear: aten", later), none);
  EXPECT_EQ(differences_of("linear: aten", "linear: cuda", later),
            std::vector<std::string>{"kernels.linear: was aten, now cuda"});
  // An activation that was an epilogue is an op of its own.
  EXPECT_EQ(differences_of("linear: aten", "linear: aten, activation: cuda", later), none);
  EXPECT_EQ(differences_of(both, "linear: aten, activation: cuda", later),
            std::vector<std::string>{"kernels.activation: was aten, now cuda"});
  EXPECT_EQ(differences_of(both, both, "{pattern: none}"),
            std::vector<std::string>{"kernels.plan: was dense.yaml, now sparse.yaml"});
}

TEST(ConfigDifferences, AFaultOfTheSavedRunIsNoMatter) {
  ::setenv("STRATA_FAULTS", "1", 1);
  const std::string before =
      parse_trainer_config("run.yaml", config_with(14, "fault: {at: step 7 rank 1, kind: kill}"), {}).resolved();
  ::unsetenv("STRATA_FAULTS");
  EXPECT_EQ(differences_that_forbid_resuming(before, parsed(config_with(0, "")), 5), std::vector<std::string>{});
}

TEST(ConfigDifferences, AgainstAFolder) {
  const std::string path = testing::TempDir() + "/resolved.yaml";
  EXPECT_EQ(difference_from_folder(parsed(config_with(0, "")), path + ".none", 5), "");
  std::ofstream(path) << parse_trainer_config("run.yaml", config_with(0, ""), {}).resolved();
  EXPECT_EQ(difference_from_folder(parsed(config_with(0, "")), path, 5), "");
  EXPECT_EQ(difference_from_folder(parsed(config_with(0, ""), {"batch=24"}), path, 5), "batch: was 16, now 24");
}

TEST(ConfigDifferences, ASavedConfigurationHasTheLimitsOfAFile) {
  const TrainerConfig now = parsed(config_with(0, ""));
  const std::string large(2 << 20, '#'), path = testing::TempDir() + "/saved.yaml";
  const auto said = [](const auto& compare) -> std::string {
    try {
      compare();
      return "accepted";
    } catch (const configs::ConfigErrors& error) {
      return error.what();
    }
  };
  const std::string expected = ":1:1: expected a configuration of at most 1 MiB, got 2097152 bytes\n";
  const std::string of_text = said([&] { differences_that_forbid_resuming(large, now, 5); });
  EXPECT_TRUE(of_text.starts_with("the saved configuration" + expected)) << of_text;
  std::ofstream(path) << large;
  EXPECT_EQ(said([&] { difference_from_folder(now, path, 5); }), path + expected);
  std::filesystem::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(said([&] { difference_from_folder(now, path, 5); }),
            path + ":1:1: expected a file, got a folder or a device\n");
}

TEST(Manual, HasEveryKey) {
  TrainerConfig config;
  for (const std::string& text : {help_text(), reference_page()}) {
    for (const configs::Line& line : LoadedConfig{config, {}}.lines()) {
      EXPECT_NE(text.find(line.path), std::string::npos) << line.path;
    }
    EXPECT_NE(text.find("schedule.decay"), std::string::npos);
    EXPECT_NE(text.find("kernels.layers.N.only"), std::string::npos);
  }
}

}  // namespace
}  // namespace strata::trainer
