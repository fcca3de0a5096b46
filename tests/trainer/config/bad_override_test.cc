// SPDX-License-Identifier: MIT
// Checks the messages for every kind of bad override on the command line, word for word.
#include <gtest/gtest.h>

#include "tests/trainer/config/config_texts.h"

namespace strata::trainer {
namespace {

struct BadOverride {
  std::string name, text, message;
};

class BadOverrideTest : public testing::TestWithParam<BadOverride> {};

TEST_P(BadOverrideTest, IsReportedAlone) {
  const std::string report = report_of(config_with(0, ""), {GetParam().text});
  EXPECT_EQ(report, "override '" + GetParam().text + "': " + GetParam().message + "\n");
}

const BadOverride kBadOverrides[] = {
    {"no_equals", "steps", "expected key=value, got no '='"},
    {"no_value", "steps=", "steps: expected a value after '=', got none"},
    {"no_key", "=3", "expected a key such as optimizer.learning_rate before '=', got ''"},
    {"dashes", "--steps=3", "expected a key such as optimizer.learning_rate before '=', without dashes"},
    {"empty_part", "run..ranks=3", "expected a key such as optimizer.learning_rate before '=', got 'run..ranks'"},
    {"spaces", "run ranks=3", "expected a key such as optimizer.learning_rate before '=', got 'run ranks'"},
    {"bad_yaml", "optimizer.betas=[0.9", "optimizer.betas: expected YAML: end of sequence flow not found"},
    {"unknown", "optimizer.learning_rat=1", "optimizer.learning_rat: unknown key; did you mean 'learning_rate'?"},
    {"wrong_section", "run.weight_decay=1", "run.weight_decay: unknown key; did you mean 'optimizer.weight_decay'?"},
    {"wrong_type", "batch=abc", "batch: expected an integer, at least 1, at most 1000000000, got 'abc'"},
    {"below_a_value", "steps.x=3", "steps.x: expected a section or a list at steps, got '100'"},
};

INSTANTIATE_TEST_SUITE_P(Table, BadOverrideTest, testing::ValuesIn(kBadOverrides),
                         [](const auto& info) { return info.param.name; });

TEST(BadOverrides, AreCheckedAgainstTheFile) {
  EXPECT_EQ(
      first_line(report_of(config_with(0, ""), {"run.ranks=3"})),
      "run.yaml:3:1: batch: 16 is not a multiple of micro_batch 4 x run.ranks 3 = 12; nearest that are: 12 and 24");
}

TEST(BadOverrides, OfAnElementPastTheEndOfAList) {
  const std::string text = config_with(7, "optimizer: {type: adamw, learning_rate: 1e-3, betas: [0.9, 0.95]}");
  EXPECT_EQ(report_of(text, {"optimizer.betas.2=0.5"}),
            "override 'optimizer.betas.2=0.5': optimizer.betas.2: expected an element of optimizer.betas, a list of 2 "
            "counted from 0, got '2'\n");
}

}  // namespace
}  // namespace strata::trainer
