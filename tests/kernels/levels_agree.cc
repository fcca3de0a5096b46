// SPDX-License-Identifier: MIT
// Every op at every level that it has, in every dtype: results and all gradients against the formula in fp64.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "kernels/levels.h"
#include "tests/kernels/evaluation.h"
#include "tests/kernels/op_cases.h"
#include "tests/kernels/test_device.h"

namespace strata::kernels {
namespace {

// The formula is <op>.py in fp64 on the CPU, with autograd: formula_test checks it against plain loops.
constexpr Level kFormulaLevel = Level::torchscript;

const std::vector<OpCase>& cases() {
  static const std::vector<OpCase> all = op_cases();
  return all;
}

struct Run {
  size_t op_case;
  Level level;
  at::ScalarType dtype;
};

// Every run that this device should have, whether it can be made or not is the test's business.
std::vector<Run> runs() {
  std::map<std::pair<std::string, Level>, bool> exists;
  for (const LevelRow& row : level_matrix()) {
    if (row.device == test_device()) exists[{std::string(row.op), row.level}] = row.forward;
  }
  std::vector<Run> all;
  for (size_t i = 0; i < cases().size(); ++i) {
    for (size_t level = 0; level < kLevelNames.size(); ++level) {
      if (!exists[{cases()[i].op, Level(level)}]) continue;
      for (const auto dtype : {at::kFloat, at::kBFloat16}) all.push_back({i, Level(level), dtype});
    }
  }
  return all;
}

std::string run_name(const testing::TestParamInfo<Run>& info) {
  return cases()[info.param.op_case].name + "_" + std::string(name(info.param.level)) +
         (info.param.dtype == at::kFloat ? "_fp32" : "_bf16");
}

double largest(const Tensor& tensor) { return tensor.numel() == 0 ? 0.0 : tensor.abs().max().item<double>(); }

double epsilon(at::ScalarType dtype) {
  if (dtype == at::kDouble) return std::numeric_limits<double>::epsilon();
  return dtype == at::kFloat ? std::numeric_limits<float>::epsilon() : 0x1p-7;
}

class LevelsAgree : public testing::TestWithParam<Run> {
 protected:
  void SetUp() override {
    if (test_device() == c10::kCUDA && !at::hasCUDA()) GTEST_SKIP() << "not run: there is no GPU";
  }
  const OpCase& op_case() const { return cases()[GetParam().op_case]; }

  // Compares what `setting` gives at the level with the formula on the same rounded inputs.
  void expect_agreement(Setting setting) const {
    setting.dtype = GetParam().dtype;
    setting.device = test_device();
    const auto reference = evaluate(rounded(op_case(), setting.dtype), kFormulaLevel, {});
    const auto aten = evaluate(op_case(), Level::aten, setting);
    const auto values = GetParam().level == Level::aten ? aten : evaluate(op_case(), GetParam().level, setting);
    ASSERT_EQ(values.size(), reference.size());
    const auto [op, c, k] = tolerance(op_case().op);
    for (size_t i = 0; i < values.size(); ++i) {
      const Tensor& expected = reference[i].value;
      ASSERT_EQ(values[i].value.sizes(), expected.sizes()) << values[i].name;
      const double error = largest(values[i].value - expected);
      double bound = k * epsilon(values[i].dtype) * largest(expected);
      if (GetParam().level != Level::aten) bound = std::max(bound, c * largest(aten[i].value - expected));
      // Adding to a buffer rounds what is in it too.
      if (setting.routing.routed) {
        const double rounding = std::max(epsilon(setting.dtype), epsilon(setting.routing.dtype));
        bound = std::max(bound, k * rounding * (largest(expected) + 1.0));
      }
      EXPECT_LE(error, bound) << values[i].name << ", largest expected " << largest(expected);
    }
  }
};

TEST_P(LevelsAgree, WithTheFormula) { expect_agreement({}); }

TEST_P(LevelsAgree, OnStridedInputs) { expect_agreement({.layout = Layout::strided}); }

TEST_P(LevelsAgree, WhenWeightGradientsAreRouted) {
  if (op_case().weights == 0) return;
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
    for (const bool add : {false, true}) {
      SCOPED_TRACE(std::string(add ? "added to " : "written into ") + c10::toString(dtype));
      expect_agreement({.routing = {true, add, dtype}});
    }
  }
}

// Every op of today is deterministic on the CPU and on GPUs.
TEST_P(LevelsAgree, WithThemselvesBitForBit) {
  const Setting setting = {.dtype = GetParam().dtype, .device = test_device()};
  const auto once = evaluate(op_case(), GetParam().level, setting);
  const auto twice = evaluate(op_case(), GetParam().level, setting);
  for (size_t i = 0; i < once.size(); ++i) EXPECT_TRUE(at::equal(once[i].value, twice[i].value)) << once[i].name;
}

INSTANTIATE_TEST_SUITE_P(Ladder, LevelsAgree, testing::ValuesIn(runs()), run_name);

}  // namespace
}  // namespace strata::kernels
