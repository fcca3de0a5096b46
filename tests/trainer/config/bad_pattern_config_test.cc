// SPDX-License-Identifier: MIT
// Checks the messages for bad patterns of attention, and for bad ranges of layers with a step, word for word.
#include <gtest/gtest.h>

#include "tests/trainer/config/config_texts.h"

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

INSTANTIATE_TEST_SUITE_P(Table, BadPatternTest, testing::ValuesIn(kBadLines),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::trainer
