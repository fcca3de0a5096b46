// SPDX-License-Identifier: MIT
// Rules of `sparsity`: the message, word for word, with its place.
#include <gtest/gtest.h>

#include "tests/trainer/config/config_texts.h"
#include "trainer/tasks/load_run_config.h"

namespace strata::trainer {
namespace {

std::string report_with_modules(const std::vector<ReplacedLine>& lines) {
  try {
    check_modules(parse_trainer_config("run.yaml", config_with(lines), {}));
    return "no error";
  } catch (const configs::ConfigErrors& errors) {
    return errors.what();
  }
}

class BadSparsityTest : public testing::TestWithParam<BadLine> {};

TEST_P(BadSparsityTest, IsReportedAlone) {
  expect_reported_alone(report_with_modules({{GetParam().number, GetParam().line}}), GetParam().message);
}

const BadLine kBadLines[] = {
    {"pattern_that_does_not_exist", 14, "sparsity: {pattern: 1:4}",
     "run.yaml:14:21: sparsity.pattern: expected none or 2:4, got '1:4'; did you mean '2:4'?"},
    {"method_that_does_not_exist", 14, "sparsity: {pattern: 2:4, method: ste}",
     "run.yaml:14:34: sparsity.method: expected 'sr_ste', got 'ste'"},
    {"modules_without_a_pattern", 14, "sparsity: {only: mlp}",
     "run.yaml:14:12: sparsity.only: changes nothing with pattern: none"},
    {"decay_without_a_pattern", 14, "sparsity: {decay: 1e-3}",
     "run.yaml:14:12: sparsity.decay: changes nothing with pattern: none"},
    {"mask_without_a_pattern", 14, "sparsity: {mask: transposable}",
     "run.yaml:14:12: sparsity.mask: changes nothing with pattern: none"},
    {"mask_that_does_not_exist", 14, "sparsity: {pattern: 2:4, mask: columns}",
     "run.yaml:14:32: sparsity.mask: expected rows or transposable, got 'columns'"},
    {"negative_decay", 14, "sparsity: {pattern: 2:4, decay: -1}",
     "run.yaml:14:33: sparsity.decay: expected a number, at least 0, at most 1000, got '-1'"},
    {"decay_beyond_the_gradient", 14, "sparsity: {pattern: 2:4, decay: 1e30}",
     "run.yaml:14:33: sparsity.decay: expected a number, at least 0, at most 1000, got '1e30'"},
    {"step_from_which_weights_are_sparse_without_a_pattern", 14, "sparsity: {from_step: 3}",
     "run.yaml:14:12: sparsity.from_step: changes nothing with pattern: none"},
    {"no_step", 14, "sparsity: {pattern: 2:4, from_step: 0}",
     "run.yaml:14:37: sparsity.from_step: expected an integer, at least 1, at most 1000000000000, got '0'"},
    {"step_after_the_run", 14, "sparsity: {pattern: 2:4, from_step: 101}",
     "run.yaml:14:26: sparsity.from_step: no weight would be pruned, because the run ends with step 100; expected at "
     "most that"},
    {"head_of_a_language_model", 14, "sparsity: {pattern: 2:4, only: head}",
     "run.yaml:14:26: sparsity.only: no linear layer of head takes sparsity; those that do: attention.qkv, "
     "attention.output, mlp.gate_up, mlp.down"},
    {"layer_past_the_model", 14, "sparsity: {pattern: 2:4, only: blocks.2-4}",
     "run.yaml:14:26: sparsity.only: expected layers below model.layers 4, counted from 0, got 'blocks.2-4'"},
};

INSTANTIATE_TEST_SUITE_P(Lines, BadSparsityTest, testing::ValuesIn(kBadLines),
                         [](const auto& info) { return info.param.name; });

TEST(Sparsity, WidthsAreWholeGroups) {
  const auto report = [](const std::string& only) {
    const std::string model =
        "model: {type: transformer, family: llama, layers: 4, width: 64, heads: 4, "
        "feed_forward: 126, sequence: 32, vocabulary: 256}";
    return report_with_modules({{5, model}, {14, "sparsity: {pattern: 2:4, only: " + only + "}"}});
  };
  expect_reported_alone(report("blocks.1-2"),
                        "run.yaml:14:12: sparsity.pattern: 2:4 prunes groups of four inputs, which do not divide the "
                        "126 inputs of blocks.1.mlp.down; expected another width, or `only` without mlp.down");
  EXPECT_EQ(report("mlp.gate_up"), "no error");
}

TEST(Sparsity, ATransposableMaskHasWholeGroupsOfOutputs) {
  const auto report = [](const std::string& only) {
    const std::string model =
        "model: {type: transformer, family: llama, layers: 4, width: 64, heads: 4, "
        "feed_forward: 61, sequence: 32, vocabulary: 256}";
    return report_with_modules(
        {{5, model}, {14, "sparsity: {pattern: 2:4, mask: transposable, only: " + only + ", decay: 0}"}});
  };
  expect_reported_alone(report("mlp.gate_up"),
                        "run.yaml:14:12: sparsity.pattern: a transposable mask prunes groups of four outputs, which do "
                        "not divide the 122 outputs of blocks.0.mlp.gate_up; expected mask: rows");
  EXPECT_EQ(report("attention"), "no error");
}

TEST(Sparsity, AndANumberFormatNeedDifferentLayers) {
  const auto report = [](const std::string& keep) {
    return report_with_modules({{9, "precision: {linear: {format: fp8, keep: [" + keep + "]}}"},
                                {14, "sparsity: {pattern: 2:4, only: blocks.1-2.mlp}"}});
  };
  expect_reported_alone(report("first"),
                        "run.yaml:14:12: sparsity.pattern: blocks.1.mlp.gate_up has the number format fp8 current of "
                        "precision.linear too; expected one of the two for each layer");
  EXPECT_EQ(report("mlp"), "no error");
}

TEST(Sparsity, OfAGraphNetwork) {
  expect_reported_alone(
      report_of(config_with(
          {{3, "batch: 1"},
           {4, "micro_batch: 1"},
           {5, "model: {type: graph_network, convolution: sage, features: 8, layers: 4, width: 16, classes: 5}"},
           {6, "data: {type: graph, file: a.npz}"},
           {13, "evaluation: {every: 50}"},
           {14, "sparsity: {pattern: 2:4}"}})),
      "run.yaml:14:12: sparsity.pattern: expected none, because the products of a graph_network take no sparsity, got "
      "2:4");
}

TEST(Sparsity, OfARunReadsBackAndForbidsToResumeAnother) {
  const LoadedConfig loaded =
      parse_trainer_config("run.yaml", config_with(14, "sparsity: {pattern: 2:4, only: mlp, decay: 1e-3}"), {});
  const LoadedConfig again = parse_trainer_config("resolved.yaml", loaded.resolved(), {});
  const modules::SparsityConfig& sparsity = again.config.sparsity;
  EXPECT_EQ(sparsity.pattern, modules::SparsityPattern::two_of_four);
  EXPECT_EQ(sparsity.only, "mlp");
  EXPECT_EQ(sparsity.decay, 1e-3);
  EXPECT_TRUE(sparsity.prunes("blocks.3.mlp.down"));
  EXPECT_FALSE(sparsity.prunes("blocks.3.attention.qkv"));
  EXPECT_TRUE(differences_that_forbid_resuming(loaded.resolved(), again.config, /*steps_done=*/0).empty());
  const LoadedConfig dense = parse_trainer_config("run.yaml", config_with(0, ""), {});
  EXPECT_FALSE(dense.config.sparsity.prunes("blocks.3.mlp.down"));
  EXPECT_FALSE(differences_that_forbid_resuming(loaded.resolved(), dense.config, /*steps_done=*/0).empty());
}

}  // namespace
}  // namespace strata::trainer
