// SPDX-License-Identifier: MIT
// Checks the messages for bad patterns of attention, and for bad ranges of layers with a step, word for word.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "tests/trainer/config/config_texts.h"
#include "trainer/config/seen_targets.h"

namespace strata::trainer {
namespace {

class BadPatternTest : public testing::TestWithParam<BadLine> {};

TEST_P(BadPatternTest, IsReportedAlone) {
  expect_reported_alone(report_of(config_with(GetParam().number, GetParam().line)), GetParam().message);
}

const BadLine kBadLines[] = {
    {"range_with_a_step_of_0", 11, "kernels: {default: aten, layers: [{only: 0-3 step 0, linear: aten}]}",
     "run.yaml:11:42: kernels.layers.0.only: expected a number or a range such as 0-3 or 0-30 step 2, got '0-3 step "
     "0'"},
    {"step_of_one_layer", 11, "kernels: {default: aten, layers: [{only: 3 step 2, linear: aten}]}",
     "run.yaml:11:42: kernels.layers.0.only: expected a number or a range such as 0-3 or 0-30 step 2, got '3 step 2'"},
    {"layer_of_a_step_past_the_model", 11, "kernels: {default: aten, layers: [{only: 0-4 step 2, linear: aten}]}",
     "run.yaml:11:36: kernels.layers.0.only: expected layers below model.layers 4, counted from 0, got 0-4 step 2"},
    {"profile_of_every_second_step", 14, "profile: {steps: 1-9 step 2}",
     "run.yaml:14:11: profile.steps: expected a range without a step, because consecutive steps are profiled, got 1-9 "
     "step 2"},
    {"unknown_word_of_attention", 5, kLlamaModel + ", attention: causal & windw(3)}",
     "run.yaml:5:125: model.attention: attention pattern, column 10: found 'windw', expected full, causal, window(n), "
     "dilated(n, step), prefix(n), global(n), blocks(density, seed), documents, or '('; did you mean 'window'?"},
    {"attention_without_a_key", 5, kLlamaModel + ", attention: window(4) & prefix(4)}",
     "run.yaml:5:125: model.attention: attention pattern: in `window(4) & prefix(4)` the query at row 7 of 32 sees no "
     "key; add `| window(1)`, so that each query sees itself"},
    {"attention_to_documents", 5, kLlamaModel + ", attention: causal & documents}",
     "run.yaml:5:125: model.attention: documents are kept apart by data.documents: separate, which adds & documents to "
     "the expression; expected an expression without them"},
    {"negative_softcap", 5, kLlamaModel + ", softcap: -1}",
     "run.yaml:5:134: model.softcap: expected a number, at least 0, at most 1000000, got '-1'"},
    {"softcap_that_is_no_number", 5, kLlamaModel + ", softcap: .nan}",
     "run.yaml:5:134: model.softcap: expected a number, at least 0, at most 1000000, got '.nan'"},
    {"tiny_softcap", 5, kLlamaModel + ", softcap: 1e-5}",
     "run.yaml:5:125: model.softcap: expected 0, which is none, or at least 0.001, because fp32 loses scores below"},
    {"tiny_softcap_of_logits", 5, kLlamaModel + ", logit_softcap: 1e-5}",
     "run.yaml:5:125: model.logit_softcap: expected 0, which is none, or at least 0.001, because fp32 loses logits "
     "below"},
    {"alibi_with_a_base_of_rotary_positions", 5, kLlamaModel + ", alibi: true, rotary_base: 500000}",
     "run.yaml:5:138: model.rotary_base: expected none, because alibi takes the place of rotary positions"},
    {"alibi_with_scaled_rotary_positions", 5, kLlamaModel + ", alibi: true, rotary_scaling: {type: llama3}}",
     "run.yaml:5:155: model.rotary_scaling.type: expected none, because alibi takes the place of rotary positions, got "
     "llama3"},
    {"unknown_word_of_a_layer", 14, "layers: [{only: 0-2 step 2, attention: causal & windw(3)}]",
     "run.yaml:14:29: layers.0.attention: attention pattern, column 10: found 'windw', expected full, causal, "
     "window(n), dilated(n, step), prefix(n), global(n), blocks(density, seed), documents, or '('; did you mean "
     "'window'?; this is the pattern of layers 0-2 step 2"},
    {"layer_without_a_key", 14, "layers: [{only: 0, attention: causal}, {only: 3, attention: window(4) & prefix(4)}]",
     "run.yaml:14:50: layers.1.attention: attention pattern: in `window(4) & prefix(4)` the query at row 7 of 32 sees "
     "no key; add `| window(1)`, so that each query sees itself; this is the pattern of layer 3"},
    {"documents_of_a_layer", 14, "layers: [{only: 1-2, attention: causal & documents}]",
     "run.yaml:14:22: layers.0.attention: documents are kept apart by data.documents: separate, which adds & documents "
     "to the expression; expected an expression without them; this is the pattern of layers 1-2"},
    {"pattern_past_the_model", 14, "layers: [{only: 0-4 step 2, attention: full}]",
     "run.yaml:14:11: layers.0.only: expected layers below model.layers 4, counted from 0, got 0-4 step 2"},
    {"layers_without_a_pattern", 14, "layers: [{only: 1}]",
     "run.yaml:14:11: layers.0.only: changes nothing: expected attention or rotary_base in this entry"},
    {"level_in_layers", 14, "layers: [{only: 1, attention: full, linear: aten}]",
     "run.yaml:14:37: layers.0.linear: unknown key; did you mean 'kernels.linear'?"},
};

// Such a query attends to the sink alone. Without sinks it is an error of the table.
TEST(Sinks, AllowQueriesThatSeeNoKey) {
  EXPECT_EQ(report_of(config_with(5, kLlamaModel + ", sinks: true, attention: window(4) & prefix(4)}")), "no error");
}

// 64 / 64 = 1 column cannot be turned in pairs.
TEST(Alibi, AllowsHeadsOfOddWidths) {
  const std::vector<std::string> heads = {"model.heads=64"};
  EXPECT_NE(report_of(config_with(5, kLlamaModel + "}"), heads), "no error");
  EXPECT_EQ(report_of(config_with(5, kLlamaModel + ", alibi: true}"), heads), "no error");
}

// Returns what a program that trains refuses, or "no error".
std::string training_report(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return report_of_check(text, overrides, check_targets);
}

class SeenTargetsTest : public testing::TestWithParam<BadLine> {};

TEST_P(SeenTargetsTest, AreRefusedInTrainingAlone) {
  const std::string text = config_with(GetParam().number, GetParam().line);
  EXPECT_EQ(report_of(text), "no error");
  for (const std::string documents : {"joined", "separate"}) {
    expect_reported_alone(training_report(text, {"data.documents=" + documents}), GetParam().message);
  }
}

const std::string kRule = "position t is trained to predict token t + 1, and with ";
const std::string kInModel = "run.yaml:5:125: model.attention: " + kRule;

const BadLine kSeenTargets[] = {
    {"full", 5, kLlamaModel + ", attention: full}",
     kInModel + "`full` it sees tokens after it; write `causal`; this is the pattern of layers 0-3"},
    {"window", 5, kLlamaModel + ", attention: window(4)}",
     kInModel + "`window(4)` it sees tokens after it; write `causal & window(4)`; this is the pattern of layers 0-3"},
    {"dilated", 5, kLlamaModel + ", attention: 'dilated(4, 2)'}",
     kInModel +
         "`dilated(4, 2)` it sees tokens after it; write `causal & dilated(4, 2)`; this is the pattern of layers 0-3"},
    {"global", 5, kLlamaModel + ", attention: window(4) | global(2)}",
     kInModel +
         "`window(4) | global(2)` it sees tokens after it; write `causal & (window(4) | global(2))`; this is the "
         "pattern of layers 0-3"},
    {"global_besides_causal", 5, kLlamaModel + ", attention: causal | global(2)}",
     kInModel + "`causal | global(2)` it sees tokens after it; write `causal`; this is the pattern of layers 0-3"},
    {"blocks", 5, kLlamaModel + ", attention: 'blocks(0.5, 1)'}",
     kInModel + "`blocks(0.5, 1)` it sees tokens after it; write `causal & blocks(0.5, 1)`; this is the pattern of "
                "layers 0-3"},
    {"window_beside_a_prefix", 5, kLlamaModel + ", attention: window(2) | prefix(4)}",
     kInModel +
         "`window(2) | prefix(4)` it sees tokens after it; write `causal & (window(2) | prefix(4))`; this is the "
         "pattern of layers 0-3"},
    {"prefix_as_long_as_the_sequence", 5, kLlamaModel + ", attention: causal | prefix(32)}",
     kInModel + "`causal | prefix(32)` it sees tokens up to the last of model.sequence 32; expected prefixes that are "
                "shorter than the sequence; this is the pattern of layers 0-3"},
    {"some_layers", 14, "layers: [{only: 0, attention: causal & window(4)}, {only: 1-3 step 2, attention: window(4)}]",
     "run.yaml:14:71: layers.1.attention: " + kRule +
         "`window(4)` it sees tokens after it; write `causal & window(4)`; this is the pattern of layers 1, 3"},
    {"layers_of_an_earlier_entry", 14,
     "layers: [{only: 0-2, attention: full}, {only: 1-2, attention: causal | prefix(4)}]",
     "run.yaml:14:22: layers.0.attention: " + kRule +
         "`full` it sees tokens after it; write `causal`; this is the pattern of layer 0"},
};

INSTANTIATE_TEST_SUITE_P(Table, SeenTargetsTest, testing::ValuesIn(kSeenTargets),
                         [](const auto& info) { return info.param.name; });

// A pattern that no layer has is not refused, and a distance that no two positions have shows nothing.
TEST(SeenTargets, PatternsThatAreTrained) {
  for (const char* pattern :
       {"causal", "causal & (window(4) | global(2))", "causal | prefix(1)", "causal | prefix(31)",
        "(causal | prefix(8)) & window(4)", "causal | prefix(8) & global(2)", "window(1)", "dilated(2, 32)"}) {
    const std::string text = config_with(5, kLlamaModel + ", attention: '" + pattern + "'}");
    EXPECT_EQ(training_report(text), "no error") << pattern;
  }
  EXPECT_EQ(training_report(config_with(
                {{5, kLlamaModel + ", attention: full}"}, {14, "layers: [{only: 0-3, attention: causal}]"}})),
            "no error");
}

TEST(SeenTargets, AreReportedTogether) {
  const LoadedConfig loaded = parse_trainer_config(
      "run.yaml",
      config_with({{5, kLlamaModel + ", attention: full}"}, {14, "layers: [{only: 1, attention: window(2)}]"}}), {});
  EXPECT_EQ(seen_targets(loaded.config),
            "layers.0.attention: " + kRule +
                "`window(2)` it sees tokens after it; write `causal & window(2)`; this is the pattern of layer 1\n"
                "model.attention: " +
                kRule + "`full` it sees tokens after it; write `causal`; this is the pattern of layers 0, 2-3\n");
}

TEST(SeenTargets, OfOtherModelsAreNone) {
  EXPECT_EQ(seen_targets(load_trainer_config("configs/quickstart_vision.yaml", {}).config), "");
}

TEST(IgnoredPositions, AreThoseOfTheLongestPrefix) {
  const auto count = [](const std::string& line, const std::string& pattern) {
    const LoadedConfig loaded = parse_trainer_config(
        "run.yaml", config_with({{5, kLlamaModel + ", attention: '" + pattern + "'}"}, {line.empty() ? 0 : 14, line}}),
        {});
    const std::vector<bool> ignored = ignored_positions(std::get<modules::TransformerConfig>(loaded.config.model.type));
    EXPECT_EQ(ignored.size(), 32U);
    EXPECT_TRUE(std::ranges::is_sorted(ignored, std::greater()));
    return std::ranges::count(ignored, true);
  };
  EXPECT_EQ(count("", "causal"), 0);
  EXPECT_EQ(count("", "causal | prefix(8)"), 7);
  EXPECT_EQ(count("", "(causal | prefix(8)) & window(4)"), 7);
  EXPECT_EQ(count("layers: [{only: 1-2, attention: causal | prefix(12)}, {only: 3, attention: causal | prefix(3)}]",
                  "causal & window(4)"),
            11);
  EXPECT_EQ(count("", "full"), 0);  // check_targets() refuses it
}

INSTANTIATE_TEST_SUITE_P(Table, BadPatternTest, testing::ValuesIn(kBadLines),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::trainer
