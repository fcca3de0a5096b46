// SPDX-License-Identifier: MIT
// Rules of precision.linear that need no model: the message, word for word, with its place.
#include <gtest/gtest.h>

#include "tests/trainer/config/config_texts.h"

namespace strata::trainer {
namespace {

using modules::LinearFormat;

class BadFormatTest : public testing::TestWithParam<BadLine> {};

TEST_P(BadFormatTest, IsReportedAlone) {
  expect_reported_alone(report_of(config_with(GetParam().number, GetParam().line)), GetParam().message);
}

const BadLine kBadLines[] = {
    {"format_that_does_not_exist", 9, "precision: {linear: {format: mxfp5}}",
     "run.yaml:9:30: precision.linear.format: expected none, fp8, mxfp8, mxfp6, mxfp4 or nvfp4, got 'mxfp5'; did you "
     "mean 'mxfp8'?"},
    {"scaling_that_does_not_exist", 9, "precision: {linear: {format: fp8, scaling: delay}}",
     "run.yaml:9:44: precision.linear.scaling: expected current, row, block or delayed, got 'delay'; did you mean "
     "'delayed'?"},
    {"history_of_scales_at_hand", 9, "precision: {linear: {format: fp8, scaling: row, history: 16}}",
     "run.yaml:9:49: precision.linear.history: expected scaling: delayed with it, got fp8 row, whose scales are "
     "computed from the values at hand"},
    {"history_of_another_format", 9, "precision: {linear: {format: mxfp8, history: 16}}",
     "run.yaml:9:37: precision.linear.history: expected scaling: delayed with it, got mxfp8, whose scales are computed "
     "from the values at hand"},
    {"history_without_a_format", 9, "precision: {linear: {history: 16}}",
     "run.yaml:9:22: precision.linear.history: changes nothing with format: none"},
    {"history_of_no_steps", 9, "precision: {linear: {format: fp8, scaling: delayed, history: 0}}",
     "run.yaml:9:62: precision.linear.history: expected an integer, at least 1, at most 1024, got '0'"},
    {"history_that_is_too_long", 9, "precision: {linear: {format: fp8, scaling: delayed, history: 1025}}",
     "run.yaml:9:62: precision.linear.history: expected an integer, at least 1, at most 1024, got '1025'"},
    {"delayed_scaling_of_another_format", 9, "precision: {linear: {format: nvfp4, scaling: delayed}}",
     "run.yaml:9:37: precision.linear.scaling: expected no scaling, because the scales are a part of nvfp4, got "
     "delayed"},
    {"scaling_of_a_format_that_has_its_own", 9, "precision: {linear: {format: mxfp8, scaling: row}}",
     "run.yaml:9:37: precision.linear.scaling: expected no scaling, because the scales are a part of mxfp8, got row"},
    {"scaling_without_a_format", 9, "precision: {linear: {scaling: row}}",
     "run.yaml:9:22: precision.linear.scaling: changes nothing with format: none"},
    {"modules_without_a_format", 9, "precision: {linear: {only: mlp}}",
     "run.yaml:9:22: precision.linear.only: changes nothing with format: none"},
    {"kept_modules_without_a_format", 9, "precision: {linear: {keep: [first]}}",
     "run.yaml:9:22: precision.linear.keep: changes nothing with format: none"},
    {"kept_modules_that_are_no_list", 9, "precision: {linear: {format: mxfp8, keep: first}}",
     "run.yaml:9:43: precision.linear.keep: expected a list, each text, got 'first'"},
};

INSTANTIATE_TEST_SUITE_P(Lines, BadFormatTest, testing::ValuesIn(kBadLines),
                         [](const auto& info) { return info.param.name; });

TEST(BadFormat, OfAGraphNetwork) {
  expect_reported_alone(
      report_of(config_with(
          {{3, "batch: 1"},
           {4, "micro_batch: 1"},
           {5, "model: {type: graph_network, convolution: sage, features: 8, layers: 4, width: 16, classes: 5}"},
           {6, "data: {type: graph, file: a.npz}"},
           {9, "precision: {linear: {format: fp8}}"},
           {13, "evaluation: {every: 50}"}})),
      "run.yaml:9:22: precision.linear.format: expected none, because the products of a graph_network take no number "
      "format, got fp8");
}

TEST(LinearFormats, FirstAndLastAreBlocks) {
  const LoadedConfig loaded = parse_trainer_config(
      "run.yaml",
      config_with(9, "precision: {linear: {format: mxfp8, only: mlp, keep: [first, last, blocks.1.mlp.up]}}"), {});
  const modules::LinearFormatsConfig& formats = loaded.config.precision.linear;
  EXPECT_EQ(formats.keep, (std::vector<std::string>{"blocks.0", "blocks.3", "blocks.1.mlp.up"}));
  for (const auto& [module, has_format] : std::vector<std::pair<std::string, bool>>{{"blocks.0.mlp.up", false},
                                                                                    {"blocks.1.mlp.up", false},
                                                                                    {"blocks.1.mlp.down", true},
                                                                                    {"blocks.1.attention.qkv", false},
                                                                                    {"blocks.2.mlp.up", true},
                                                                                    {"blocks.3.mlp.up", false},
                                                                                    {"head", false}}) {
    EXPECT_EQ(formats.of(module).has_value(), has_format) << module;
  }
  // The configuration that a run writes down reads back as the same.
  const TrainerConfig again = parse_trainer_config("resolved.yaml", loaded.resolved(), {}).config;
  EXPECT_EQ(again.precision.linear.keep, formats.keep);
  EXPECT_EQ(differences_that_forbid_resuming(loaded.resolved(), loaded.config, /*steps_done=*/0),
            std::vector<std::string>());
}

TEST(LinearFormats, ADelayedScaleHasAHistory) {
  const auto formats_of = [](const std::string& line) {
    return parse_trainer_config("run.yaml", config_with(9, "precision: {linear: " + line + "}"), {})
        .config.precision.linear;
  };
  EXPECT_EQ(formats_of("{format: fp8, scaling: delayed}").steps_of_history(), 1024);
  EXPECT_EQ(formats_of("{format: fp8, scaling: delayed, history: 16}").steps_of_history(), 16);
  EXPECT_TRUE(formats_of("{format: fp8, scaling: delayed, history: 16}").delays());
  EXPECT_FALSE(formats_of("{format: fp8, scaling: current}").delays());
  EXPECT_FALSE(formats_of("{format: mxfp8}").delays());
}

TEST(LinearFormats, HaveTheElementsOfTheirRecipes) {
  using kernels::Element, kernels::Scaling, modules::LinearScaling;
  struct Line {
    LinearFormat format;
    std::optional<LinearScaling> scaling;
    Element values, gradients;
    Scaling scales;
    std::string text;
  };
  for (const Line& line : std::vector<Line>{
           {LinearFormat::fp8, {}, Element::e4m3, Element::e5m2, Scaling::tensor, "fp8 current"},
           {LinearFormat::fp8, LinearScaling::row, Element::e4m3, Element::e5m2, Scaling::row, "fp8 row"},
           {LinearFormat::fp8, LinearScaling::block, Element::e4m3, Element::e5m2, Scaling::block, "fp8 block"},
           {LinearFormat::fp8, LinearScaling::delayed, Element::e4m3, Element::e5m2, Scaling::tensor, "fp8 delayed"},
           {LinearFormat::mxfp8, {}, Element::e4m3, Element::e4m3, Scaling::mx, "mxfp8"},
           {LinearFormat::mxfp6, {}, Element::e3m2, Element::e3m2, Scaling::mx, "mxfp6"},
           {LinearFormat::mxfp4, {}, Element::e2m1, Element::e2m1, Scaling::mx, "mxfp4"},
           {LinearFormat::nvfp4, {}, Element::e2m1, Element::e2m1, Scaling::nv, "nvfp4"}}) {
    const modules::LinearFormatsConfig formats{.format = line.format, .scaling = line.scaling};
    EXPECT_EQ(formats.text(), line.text);
    const auto found = formats.of("blocks.2.mlp.up");
    ASSERT_TRUE(found) << line.text;
    EXPECT_EQ(found->values, (kernels::QuantizedFormat{line.values, line.scales})) << line.text;
    EXPECT_EQ(found->gradients, (kernels::QuantizedFormat{line.gradients, line.scales})) << line.text;
  }
  EXPECT_FALSE(modules::LinearFormatsConfig().of("blocks.2.mlp.up"));
}

}  // namespace
}  // namespace strata::trainer
