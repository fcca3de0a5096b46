// SPDX-License-Identifier: MIT
// Checks level aten in fp64: results against the formula to 1e-12, gradients against finite differences.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "kernels/op_proofs.h"
#include "kernels/proof/evaluation.h"

namespace strata::kernels {
namespace {

std::vector<OpCase> differentiable_cases() {
  std::vector<OpCase> cases = op_cases();
  std::erase_if(cases, [](const OpCase& op_case) { return !op_case.differentiable; });
  return cases;
}

std::string case_name(const testing::TestParamInfo<OpCase>& info) { return info.param.name; }

class Exact : public testing::TestWithParam<OpCase> {};

TEST_P(Exact, AtenEqualsTheFormula) {
  const auto reference = evaluate(GetParam(), Level::torchscript, {});
  const auto values = evaluate(GetParam(), Level::aten, {});
  ASSERT_EQ(values.size(), reference.size());
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(values[i].value.sizes(), reference[i].value.sizes());
    if (values[i].value.numel() == 0) continue;
    const double scale = std::max(1.0, reference[i].value.abs().max().item<double>());
    EXPECT_LE((values[i].value - reference[i].value).abs().max().item<double>(), 1e-12 * scale) << values[i].name;
  }
}

INSTANTIATE_TEST_SUITE_P(Aten, Exact, testing::ValuesIn(op_cases()), case_name);

class Differences : public testing::TestWithParam<OpCase> {};

// (f(x + h d) - f(x - h d)) / 2h = gradient . d for a random direction d. f = sum(outputs * fixed random numbers) is
// the function that evaluate() differentiates. f is linear in the outputs, and its factors are the output gradients.
// The direction does not depend on the tests that ran before: of 45,850 maxima one may change its edge within a step.
TEST_P(Differences, EqualTheGradients) {
  constexpr double kStep = 1e-6;
  at::manual_seed(3);
  const OpCase& op_case = GetParam();
  const auto values = evaluate(op_case, Level::aten, {});
  const size_t outputs = values.size() - op_case.leaves.size();
  OpCase ahead = op_case, behind = op_case;
  double slope = 0.0;
  for (size_t i = 0; i < op_case.leaves.size(); ++i) {
    const Tensor direction = at::randn(op_case.leaves[i].sizes(), at::kDouble);
    ahead.leaves[i] = op_case.leaves[i] + direction * kStep;
    behind.leaves[i] = op_case.leaves[i] - direction * kStep;
    slope += (values[outputs + i].value * direction).sum().item<double>();
  }
  const auto after = evaluate(ahead, Level::aten, {}), before = evaluate(behind, Level::aten, {});
  std::vector<Tensor> factors;
  for (size_t i = 0; i < outputs; ++i) factors.push_back(values[i].value);
  factors = output_gradients(factors);
  double difference = 0.0;
  for (size_t i = 0; i < outputs; ++i) {
    difference += ((after[i].value - before[i].value) * factors[i]).sum().item<double>() / (2 * kStep);
  }
  EXPECT_NEAR(difference, slope, 1e-6 * std::max(1.0, std::abs(slope)));
}

INSTANTIATE_TEST_SUITE_P(Aten, Differences, testing::ValuesIn(differentiable_cases()), case_name);

}  // namespace
}  // namespace strata::kernels
