// SPDX-License-Identifier: MIT
// Lines that name modules are checked against what the model declares: the message, word for word, with its place.
#include "trainer/tasks/load_run_config.h"

#include <gtest/gtest.h>

#include "tests/trainer/config/config_texts.h"

namespace strata::trainer {
namespace {

std::string report_of_modules(const std::string& text) {
  const LoadedConfig loaded = parse_trainer_config("run.yaml", text, {});
  try {
    check_modules(loaded);
    return "no error";
  } catch (const configs::ConfigErrors& errors) {
    return errors.what();
  }
}

class BadModuleTest : public testing::TestWithParam<BadLine> {};

TEST_P(BadModuleTest, IsReportedAlone) {
  expect_reported_alone(report_of_modules(config_with(GetParam().number, GetParam().line)), GetParam().message);
}

const BadLine kBadLines[] = {
    {"module_misspelt", 11, "kernels: {modules: [{only: blocks.1.mpl, linear: aten}]}",
     "run.yaml:11:22: kernels.modules.0.only: expected a module of this model (embedding, norm1, attention, "
     "attention.qkv, attention.output, norm2, mlp, mlp.gate_up, mlp.down, norm, head), alone or behind its layer "
     "(blocks.0), got 'blocks.1.mpl'; did you mean 'blocks.1.mlp'?"},
    {"module_of_a_layer_past_the_model", 11, "kernels: {modules: [{only: blocks.2-4.mlp, linear: aten}]}",
     "run.yaml:11:22: kernels.modules.0.only: expected layers below model.layers 4, counted from 0, got "
     "'blocks.2-4.mlp'"},
    {"op_of_another_module", 11, "kernels: {modules: [{only: mlp, linear: aten, rotary: torchscript}]}",
     "run.yaml:11:47: kernels.modules.0.rotary: is not computed by mlp; ops there: activation, linear"},
    {"op_of_no_module", 11, "kernels: {modules: [{only: head, cross_entropy: aten}]}",
     "run.yaml:11:34: kernels.modules.0.cross_entropy: is not computed by head; ops there: linear"},
    {"head_that_is_one_with_the_loss", 11,
     "kernels: {linear_cross_entropy: aten, modules: [{only: head, linear: aten}]}",
     "run.yaml:11:62: kernels.modules.0.linear: is not computed by head, because kernels.linear_cross_entropy makes "
     "head and loss one op; ops there: none"},
    {"precision_of_a_part_of_a_group", 9, "precision: {modules: [{only: norm, compute: bfloat16}]}",
     "run.yaml:9:24: precision.modules.0.only: norm is gathered with others, and a type belongs to a whole "
     "group of parameters: root (embedding, norm, head), blocks.0-3"},
    {"precision_of_a_tied_head", 9, "precision: {modules: [{only: head, compute: bfloat16}]}",
     "run.yaml:9:24: precision.modules.0.only: head is gathered with others, and a type belongs to a whole "
     "group of parameters: root (embedding, norm, head), blocks.0-3"},
    {"precision_of_a_group_misspelt", 9, "precision: {modules: [{only: blocks.4, compute: bfloat16}]}",
     "run.yaml:9:24: precision.modules.0.only: expected layers below model.layers 4, counted from 0, got 'blocks.4'; a "
     "type belongs to a whole group of parameters: root (embedding, norm, head), blocks.0-3"},
    {"format_of_a_module_misspelt", 9, "precision: {linear: {format: mxfp8, only: atention}}",
     "run.yaml:9:37: precision.linear.only: expected a module of this model (embedding, norm1, attention, "
     "attention.qkv, attention.output, norm2, mlp, mlp.gate_up, mlp.down, norm, head), alone or behind its layer "
     "(blocks.0), got 'atention'; did you mean 'attention'?"},
    {"format_of_the_head_of_a_language_model", 9, "precision: {linear: {format: mxfp8, only: head}}",
     "run.yaml:9:37: precision.linear.only: no linear layer of head takes a number format; those that do: "
     "attention.qkv, attention.output, mlp.gate_up, mlp.down"},
    {"format_of_a_layer_past_the_model", 9, "precision: {linear: {format: mxfp8, only: blocks.2-4}}",
     "run.yaml:9:37: precision.linear.only: expected layers below model.layers 4, counted from 0, got 'blocks.2-4'"},
    {"kept_module_misspelt", 9, "precision: {linear: {format: mxfp8, keep: [first, mpl.up]}}",
     "run.yaml:9:51: precision.linear.keep.1: expected a module of this model (embedding, norm1, attention, "
     "attention.qkv, attention.output, norm2, mlp, mlp.gate_up, mlp.down, norm, head), alone or behind its layer "
     "(blocks.0), got 'mpl.up'; or first or last"},
    {"format_of_nothing", 9, "precision: {linear: {format: mxfp8, only: mlp, keep: [blocks]}}",
     "run.yaml:9:48: precision.linear.keep: leaves no linear layer of mlp"},
};

INSTANTIATE_TEST_SUITE_P(Lines, BadModuleTest, testing::ValuesIn(kBadLines),
                         [](const auto& info) { return info.param.name; });

TEST(BadModule, OfAGraphNetwork) {
  const auto report_of_kernels = [](const std::string& kernels) {
    return report_of_modules(config_with(
        {{3, "batch: 1"},
         {4, "micro_batch: 1"},
         {5, "model: {type: graph_network, convolution: sage, features: 8, layers: 4, width: 16, classes: 5}"},
         {6, "data: {type: graph, file: a.npz}"},
         {11, "kernels: " + kernels},
         {13, "evaluation: {every: 50}"}}));
  };
  expect_reported_alone(
      report_of_kernels("{modules: [{only: attention.qkv, linear: aten}]}"),
      "run.yaml:11:22: kernels.modules.0.only: expected a module of this model (neighbor, self), alone or behind its "
      "layer (layers.0), got 'attention.qkv'");
  expect_reported_alone(report_of_kernels("{modules: [{only: self, linear: aten}]}"),
                        "run.yaml:11:34: kernels.modules.0.linear: is not computed by self; ops there: none");
}

TEST(BadModule, WidthsAreWholeBlocks) {
  const auto report_of_format = [](const std::string& model, const std::string& linear) {
    return report_of_modules(
        config_with({{5, kLlamaModel + model + "}"}, {9, "precision: {linear: {" + linear + "}}"}}));
  };
  const std::string wide = ", head_width: 20", rest = "; expected another width, or ";
  expect_reported_alone(
      report_of_format(wide, "format: mxfp8, keep: [first]"),
      "run.yaml:9:22: precision.linear.format: mxfp8 has a scale for each block of 32 elements, which "
      "does not divide the 240 outputs of blocks.1.attention.qkv" +
          rest + "attention.qkv in keep");
  expect_reported_alone(
      report_of_format(wide, "format: mxfp8, keep: [attention.qkv]"),
      "run.yaml:9:22: precision.linear.format: mxfp8 has a scale for each block of 32 elements, which "
      "does not divide the 80 inputs of blocks.0.attention.output" +
          rest + "attention.output in keep");
  expect_reported_alone(report_of_format("", "format: fp8, scaling: block, only: mlp"),
                        "run.yaml:9:22: precision.linear.format: fp8 has a scale for each block of 128 elements, which "
                        "does not divide the 64 inputs of blocks.0.mlp.gate_up" +
                            rest + "mlp.gate_up in keep");
  EXPECT_EQ(report_of_format(wide, "format: mxfp8, keep: [attention]"), "no error");
  EXPECT_EQ(report_of_format(wide, "format: nvfp4"), "no error");
  EXPECT_EQ(report_of_format(wide, "format: fp8, scaling: row"), "no error");
}

TEST(BadModule, EveryErrorIsReported) {
  const std::string report = report_of_modules(
      config_with(11, "kernels: {modules: [{only: mpl, linear: aten}, {only: norm, attention: aten}]}"));
  EXPECT_NE(report.find("2 errors in the configuration"), std::string::npos) << report;
}

TEST(BadModule, GoodLinesAreAccepted) {
  EXPECT_EQ(report_of_modules(config_with(11, "kernels: {modules: [{only: blocks.1-3.mlp.down, linear: aten}]}")),
            "no error");
  EXPECT_EQ(report_of_modules(config_with(9, "precision: {linear: {format: mxfp8, keep: [first, last, head]}}")),
            "no error");
}

}  // namespace
}  // namespace strata::trainer
