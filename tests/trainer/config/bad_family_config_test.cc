// SPDX-License-Identifier: MIT
// Checks the messages for bad keys of the block of a language model, word for word.
#include <gtest/gtest.h>

#include "tests/trainer/config/config_texts.h"

namespace strata::trainer {
namespace {

class BadFamilyTest : public testing::TestWithParam<BadLine> {};

TEST_P(BadFamilyTest, IsReportedAlone) {
  expect_reported_alone(report_of(config_with(GetParam().number, GetParam().line)), GetParam().message);
}

const BadLine kBadLines[] = {
    {"odd_width_of_heads", 5, kLlamaModel + ", head_width: 7}",
     "run.yaml:5:125: model.head_width: rotary positions turn pairs: expected an even width, got 7"},
    {"width_of_all_heads", 5,
     "model: {type: transformer, family: llama, layers: 4, width: 64, heads: 50000, head_width: 22, feed_forward: 128, "
     "sequence: 32, vocabulary: 256}",
     "run.yaml:5:79: model.head_width: expected heads * head_width of at most 1000000, got 1100000"},
    {"biases_of_gpt2", 5,
     "model: {type: transformer, family: gpt2, layers: 4, width: 64, heads: 4, sequence: 32, vocabulary: 256, "
     "qkv_biases: true}",
     "run.yaml:5:105: model.qkv_biases: changes nothing in the gpt2 family, whose projections all have biases"},
    {"gate_of_gpt2", 5,
     "model: {type: transformer, family: gpt2, layers: 4, width: 64, heads: 4, sequence: 32, vocabulary: 256, "
     "gate: gelu_tanh}",
     "run.yaml:5:105: model.gate: changes nothing in the gpt2 family, whose MLP has no gate"},
    {"no_embedding", 5, kLlamaModel + ", embedding_scale: 0}",
     "run.yaml:5:142: model.embedding_scale: expected 'sqrt_width', or a number, at least 1e-06, at most 1000000, got "
     "'0'"},
    {"unknown_embedding_scale", 5, kLlamaModel + ", embedding_scale: sqrt_widht}",
     "run.yaml:5:142: model.embedding_scale: expected 'sqrt_width', or a number, at least 1e-06, at most 1000000, got "
     "'sqrt_widht'; did you "
     "mean 'sqrt_width'?"},
    {"scaling_of_another_type", 5, kLlamaModel + ", rotary_scaling: {type: linear, beta_fast: 8}}",
     "run.yaml:5:156: model.rotary_scaling.beta_fast: changes nothing with rotary_scaling.type: linear"},
    {"band_of_yarn", 5, kLlamaModel + ", rotary_scaling: {type: yarn, beta_fast: 1}}",
     "run.yaml:5:154: model.rotary_scaling.beta_fast: expected a number above beta_slow"},
    {"base_of_yarn", 5, kLlamaModel + ", rotary_base: 1, rotary_scaling: {type: yarn}}",
     "run.yaml:5:125: model.rotary_base: expected a number above 1, because rotary_scaling.type is yarn"},
    {"base_below_one", 5, kLlamaModel + ", rotary_base: 0.5}",
     "run.yaml:5:138: model.rotary_base: expected a number, at least 1, at most 1000000000000, got '0.5'"},
    {"epsilon_of_no_float32", 5, kLlamaModel + ", norm_epsilon: 1e-50}",
     "run.yaml:5:139: model.norm_epsilon: expected a number, at least 1e-30, at most 1, got '1e-50'"},
    {"context_beyond_all_models", 5, kLlamaModel + ", rotary_scaling: {type: yarn, original_sequence: 1000000000}}",
     "run.yaml:5:173: model.rotary_scaling.original_sequence: expected an integer, at least 1, at most 100000000, got "
     "'1000000000'"},
    {"factor_beyond_all_models", 5, kLlamaModel + ", rotary_scaling: {type: linear, factor: 1e300}}",
     "run.yaml:5:164: model.rotary_scaling.factor: expected a number, at least 1, at most 1000000, got '1e300'"},
    {"no_rotary_fraction", 5, kLlamaModel + ", rotary_fraction: 0}",
     "run.yaml:5:142: model.rotary_fraction: expected a number, above 0, at most 1, got '0'"},
    {"negative_rotary_fraction", 5, kLlamaModel + ", rotary_fraction: -0.5}",
     "run.yaml:5:142: model.rotary_fraction: expected a number, above 0, at most 1, got '-0.5'"},
    {"rotary_fraction_above_one", 5, kLlamaModel + ", rotary_fraction: 1.25}",
     "run.yaml:5:142: model.rotary_fraction: expected a number, above 0, at most 1, got '1.25'"},
    {"odd_rotary_fraction", 5, kLlamaModel + ", rotary_fraction: 0.3125}",
     "run.yaml:5:125: model.rotary_fraction: rotary positions turn pairs: expected an even number, at least 2, of the "
     "16 features of a head, got 5"},
    {"rotary_fraction_of_nothing", 5, kLlamaModel + ", rotary_fraction: 0.06}",
     "run.yaml:5:125: model.rotary_fraction: rotary positions turn pairs: expected an even number, at least 2, of the "
     "16 features of a head, got 0"},
    {"rotary_fraction_with_alibi", 5, kLlamaModel + ", alibi: true, rotary_fraction: 0.5}",
     "run.yaml:5:138: model.rotary_fraction: expected none, because alibi takes the place of rotary positions"},
    {"scaling_of_layers_without_a_base", 14, "layers: [{only: 1, attention: full, rotary_scaling: {type: linear}}]",
     "run.yaml:14:37: layers.0.rotary_scaling: changes nothing without rotary_base in this entry"},
    {"scaling_of_layers_alone", 14, "layers: [{only: 1, rotary_scaling: {type: linear}}]",
     "run.yaml:14:20: layers.0.rotary_scaling: changes nothing without rotary_base in this entry"},
    {"scaling_of_layers", 14, "layers: [{only: 1, rotary_base: 100, rotary_scaling: {factor: 8}}]",
     "run.yaml:14:55: layers.0.rotary_scaling.factor: changes nothing with rotary_scaling.type: none"},
};

TEST(BadFamilyTest, RotaryBaseOfALayerOfGpt2) {
  expect_reported_alone(
      report_of(config_with({{5,
                              "model: {type: transformer, family: gpt2, layers: 4, width: 64, heads: 4, sequence: 32, "
                              "vocabulary: 256}"},
                             {14, "layers: [{only: 1, rotary_base: 100}]"}})),
      "run.yaml:14:20: layers.0.rotary_base: expected none, because the gpt2 family has learned positions");
}

INSTANTIATE_TEST_SUITE_P(Table, BadFamilyTest, testing::ValuesIn(kBadLines),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::trainer
