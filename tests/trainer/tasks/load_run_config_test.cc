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

TEST(BadModule, EveryErrorIsReported) {
  const std::string report = report_of_modules(
      config_with(11, "kernels: {modules: [{only: mpl, linear: aten}, {only: norm, attention: aten}]}"));
  EXPECT_NE(report.find("2 errors in the configuration"), std::string::npos) << report;
}

TEST(BadModule, GoodLinesAreAccepted) {
  EXPECT_EQ(report_of_modules(config_with(11, "kernels: {modules: [{only: blocks.1-3.mlp.down, linear: aten}]}")),
            "no error");
}

}  // namespace
}  // namespace strata::trainer
