// SPDX-License-Identifier: MIT
// Checks every op at every level that it has, in every dtype: results and all gradients against the formula in fp64.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "kernels/level_matrix.h"
#include "kernels/linear/linear.h"
#include "kernels/op_proofs.h"
#include "kernels/proof/agreement.h"
#include "tests/kernels/evaluation.h"
#include "tests/kernels/gpus/asked_architecture.h"
#include "tests/kernels/test_device.h"

namespace strata::kernels {
namespace {

// The formula is <op>.py in fp64 on the CPU, differentiated by autograd. <op>_test.cc checks it against plain loops.
constexpr Level kFormulaLevel = Level::torchscript;

// The number of a value of the formula, and what differs in the bounds of a level.
using ComparisonKey = std::tuple<size_t, at::ScalarType, double, double>;

ComparisonKey key_of(size_t place, const Bounds& bounds) {
  return {place, bounds.dtype, bounds.factor, bounds.largest};
}

struct Formula {
  std::vector<Value> exact, rounded;  // in fp64, and in the dtype of the setting
  std::map<ComparisonKey, Comparison> comparisons = {};

  const Comparison& comparison(size_t place, const Bounds& bounds) {
    const ComparisonKey key = key_of(place, bounds);
    const auto found = comparisons.find(key);
    if (found != comparisons.end()) return found->second;
    const Expected expected{exact[place].value, rounded[place].value, exact[place].variance};
    return comparisons.emplace(key, Comparison(expected, bounds)).first->second;
  }

  // A buffer rounds what it gets, and the sum with what is in it.
  Comparison in_buffer(size_t place, const Bounds& bounds, const Destination& destination) const {
    const double before = destination.add ? kBefore : 0.0;
    const Tensor sum = (rounded[place].value + before).to(destination.dtype).to(at::kDouble);
    return {{exact[place].value + before, sum, exact[place].variance}, bounds};
  }
};

// The large cases come last.
const std::vector<OpCase>& cases() {
  static const std::vector<OpCase> all = [] {
    std::vector<OpCase> cases = op_cases();
    for (OpCase& op_case : large_op_cases()) cases.push_back(std::move(op_case));
    return cases;
  }();
  return all;
}

struct Run {
  size_t op_case;
  Level level;
  at::ScalarType dtype;
};

// Returns every run that this device should have. The tests find out if it is possible.
std::vector<Run> runs(bool takes_large_cases) {
  std::map<std::pair<std::string, Level>, bool> exists;
  for (const LevelRow& row : level_matrix()) {
    if (row.device != test_device()) continue;
    exists[{std::string(row.op), row.level}] = row.forward && is_asked_for(row.gpus);
  }
  std::vector<Run> all;
  const size_t large = cases().size() - large_op_cases().size();
  for (size_t i = takes_large_cases ? large : 0; i < (takes_large_cases ? cases().size() : large); ++i) {
    for (size_t level = 0; level < kLevelNames.size(); ++level) {
      if (!exists[{cases()[i].op(), Level(level)}]) continue;
      for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf}) all.push_back({i, Level(level), dtype});
    }
  }
  return all;
}

std::string_view short_name(at::ScalarType dtype) {
  return dtype == at::kFloat ? "fp32" : dtype == at::kBFloat16 ? "bf16" : "fp16";
}

at::ScalarType coarser(at::ScalarType a, at::ScalarType b) { return unit_roundoff(a) > unit_roundoff(b) ? a : b; }

std::string run_name(const testing::TestParamInfo<Run>& info) {
  const auto& [op_case, level, dtype] = info.param;
  return cases()[op_case].name + "_" + std::string(name(level)) + "_" + std::string(short_name(dtype));
}

class LevelsAgree : public testing::TestWithParam<Run> {
 protected:
  void SetUp() override {
    if (const char* reason = why_not_run(GetParam().level)) GTEST_SKIP() << reason;
  }
  // The number of parts of the rows that are computed one after another.
  virtual double chunks() const { return 1; }
  const OpCase& op_case() const { return cases()[GetParam().op_case]; }
  std::string slot() const { return op_case().op() + "/" + std::string(name(GetParam().level)); }
  // Returns the number of the first value that is the gradient of a weight.
  size_t first_weight(const std::vector<Value>& values) const { return values.size() - op_case().weights; }

  // Returns the values of the level. Returns nothing if the level refuses the case with its own message; the test is
  // then skipped.
  std::optional<std::vector<Value>> values_of_level(const Setting& setting) const {
    ++slots()[slot()].asked;
    try {
      return evaluate(op_case(), GetParam().level, setting);
    } catch (const c10::ValueError& error) {
      const std::string sentence = error.what_without_backtrace();
      if (sentence.rfind(slot() + ": ", 0) != 0) throw;
      ++slots()[slot()].refused;
      skip_ = sentence;
      return std::nullopt;
    }
  }

  void TearDown() override {
    at::globalContext().setDeterministicAlgorithms(false, /*warn_only=*/false);
    if (!skip_.empty() && !HasFailure()) GTEST_SKIP() << "refused: " << skip_;
  }

  // Compares the results of `setting` at the level with the formula on the same rounded inputs.
  void expect_agreement(Setting setting) const {
    setting.dtype = GetParam().dtype;
    setting.device = test_device();
    const auto values = values_of_level(setting);
    if (!values) return;
    Formula& formula = formula_of(setting);
    const Tolerance& tolerance = tolerance_of(op_case().op());
    ASSERT_EQ(values->size(), setting.only_leaf ? op_case().outputs + 1 : formula.exact.size());
    for (size_t i = 0; i < values->size(); ++i) {
      const std::string& name = (*values)[i].name;
      const Tensor& value = (*values)[i].value;
      const size_t place = setting.only_leaf && i == op_case().outputs ? i + *setting.only_leaf : i;
      ASSERT_EQ(name, formula.exact[place].name);
      ASSERT_EQ(value.sizes(), formula.exact[place].value.sizes()) << name;
      const bool is_gradient = name.starts_with("gradient");
      const bool in_buffer = setting.destination.given && is_gradient && i >= first_weight(*values);
      Bounds bounds = bounds_of((*values)[i], tolerance);
      if (in_buffer) bounds.dtype = coarser(bounds.dtype, setting.dtype);
      // Gradients of weights are sums over chunks, and each sum is rounded.
      if (i >= first_weight(*values)) bounds.factor *= std::sqrt(chunks());
      if (GetParam().level == Level::aten) bounds.factor *= tolerance.at_aten;
      const Agreement found = in_buffer ? comparison_in_buffer(formula, place, bounds, setting).agreement(value)
                                        : formula.comparison(place, bounds).agreement(value);
      EXPECT_TRUE(found.agreed()) << name << ": " << found.words;
      double& share = slots()[slot()].shares[{setting.dtype, is_gradient}];
      share = std::max(share, found.share);
    }
  }

  static void TearDownTestSuite() {
    for (const auto& [slot, count] : slots()) {
      for (const auto& [what, share] : count.shares) {
        std::printf("%s %s %s: error %.2f of what is allowed\n", slot.c_str(), short_name(what.first).data(),
                    what.second ? "gradients" : "outputs", share);
      }
      if (count.refused > 0) std::printf("%s refused %d of %d runs\n", slot.c_str(), count.refused, count.asked);
      EXPECT_LT(count.refused, count.asked) << slot << " refuses every case: it was not proved";
    }
  }

 private:
  struct Count {
    int asked = 0, refused = 0;
    std::map<std::pair<at::ScalarType, bool>, double> shares;  // by dtype, and if it is a gradient
  };
  static std::map<std::string, Count>& slots() {
    static std::map<std::string, Count> slots;
    return slots;
  }

  // Returns the formula's results for the same rounded inputs. All levels and layouts of a case share them, which takes
  // 1 GB. A gradient that is computed alone is that of all together.
  Formula& formula_of(const Setting& setting) const {
    using Key = std::tuple<size_t, at::ScalarType, std::optional<size_t>>;
    static std::map<Key, Formula> formulas;
    Formula& formula = formulas[{GetParam().op_case, setting.dtype, setting.only_output}];
    if (formula.exact.empty()) {
      Setting on_cpu{.only_output = setting.only_output, .variances_of = setting.dtype};
      formula.exact = evaluate(rounded(op_case(), setting.dtype), kFormulaLevel, on_cpu);
      on_cpu.dtype = setting.dtype;
      formula.rounded = evaluate(op_case(), kFormulaLevel, on_cpu);
    }
    return formula;
  }

  // The levels of a case are tested one after another and share these comparisons. Those of all cases would take
  // several GB.
  const Comparison& comparison_in_buffer(const Formula& formula, size_t place, const Bounds& bounds,
                                         const Setting& setting) const {
    using Key = std::tuple<ComparisonKey, at::ScalarType, at::ScalarType, bool>;
    static size_t compared_case = cases().size();
    static std::map<Key, Comparison> comparisons;
    if (std::exchange(compared_case, GetParam().op_case) != GetParam().op_case) comparisons.clear();
    const Destination& destination = setting.destination;
    const Key key{key_of(place, bounds), setting.dtype, destination.dtype, destination.add};
    const auto found = comparisons.find(key);
    if (found != comparisons.end()) return found->second;
    return comparisons.emplace(key, formula.in_buffer(place, bounds, destination)).first->second;
  }

  mutable std::string skip_;
};

// An op without cases would pass without a proof, and so would cases under a name that no op has.
TEST(OpCases, AreThereForEveryOpAndForNothingElse) {
  std::set<std::string> ops, with_cases;
  for (const LevelRow& row : level_matrix()) ops.emplace(row.op);
  for (const OpCase& op_case : cases()) with_cases.insert(op_case.op());
  EXPECT_EQ(ops, with_cases);
}

// LibTorch refuses that for a view that was made inside an op. The loss overwrites logits, which are such a result.
TEST(Linear, ItsResultMayBeChangedInPlace) {
  const auto options = at::TensorOptions(test_device()).dtype(at::kBFloat16);
  for (const LevelRow& row : level_matrix()) {
    if (row.op != "linear" || row.device != test_device() || !row.forward || why_not_run(row.level)) continue;
    SCOPED_TRACE(std::string(name(row.level)));
    const Tensor x = at::ones({2, 3, 64}, options).requires_grad_(), weight = at::ones({128, 64}, options);
    const Tensor y = linear(x, weight, /*bias=*/{}, Activation::none, row.level);
    EXPECT_NO_THROW(y.mul_(2));
  }
}

TEST_P(LevelsAgree, WithTheFormula) { expect_agreement({}); }

TEST_P(LevelsAgree, OnStridedInputs) { expect_agreement({.layout = Layout::strided}); }

TEST_P(LevelsAgree, OnUnalignedInputs) { expect_agreement({.layout = Layout::unaligned}); }

// A number that a kernel does not write may hold the right value of an earlier call. In deterministic mode LibTorch
// fills new tensors with NaN.
TEST_P(LevelsAgree, WhenNewTensorsHoldNaN) {
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  at::globalContext().setDeterministicFillUninitializedMemory(true);
  expect_agreement({});
}

TEST_P(LevelsAgree, WhenOnlyOneGradientIsNeeded) {
  if (!op_case().differentiable) return;
  for (size_t i = 0; i < op_case().leaves.size(); ++i) {
    SCOPED_TRACE("of leaf " + std::to_string(i));
    expect_agreement({.only_leaf = i});
  }
}

TEST_P(LevelsAgree, WhenOnlyOneOutputHasAGradient) {
  if (op_case().outputs < 2 || !op_case().differentiable) return;
  for (size_t i = 0; i < op_case().outputs; ++i) {
    SCOPED_TRACE("output " + std::to_string(i));
    expect_agreement({.only_output = i});
  }
}

TEST_P(LevelsAgree, WhenWeightGradientsHaveDestinations) {
  if (op_case().weights == 0) return;
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
    for (const bool add : {false, true}) {
      SCOPED_TRACE(std::string(add ? "added to " : "written into ") + c10::toString(dtype));
      expect_agreement({.destination = {true, add, dtype}});
    }
  }
  SCOPED_TRACE("added to unaligned BFloat16");
  expect_agreement({.layout = Layout::unaligned, .destination = {true, true, at::kBFloat16}});
}

// Every op is deterministic on the CPU and on GPUs. Some ops are so at levels aten and cuda only in deterministic mode.
TEST_P(LevelsAgree, WithThemselvesBitForBit) {
  const Level level = GetParam().level;
  const bool asked = proof_of(op_case().op()).deterministic_if_asked && (level == Level::aten || level == Level::cuda);
  at::globalContext().setDeterministicAlgorithms(asked, /*warn_only=*/false);
  const Setting setting = {.dtype = GetParam().dtype, .device = test_device()};
  for (int i = 0; i < calls_before_bits_repeat(level); ++i) {
    if (!values_of_level(setting)) return;
  }
  const auto once = values_of_level(setting);
  if (!once) return;
  const auto twice = evaluate(op_case(), level, setting);
  for (size_t i = 0; i < once->size(); ++i) EXPECT_TRUE(at::equal((*once)[i].value, twice[i].value)) << (*once)[i].name;
}

INSTANTIATE_TEST_SUITE_P(Ladder, LevelsAgree, testing::ValuesIn(runs(/*takes_large_cases=*/false)), run_name);

class LevelsAgreeInChunks : public LevelsAgree {
  double chunks() const override { return 2; }
};

TEST_P(LevelsAgreeInChunks, AndAddGradientsOfWeights) {
  expect_agreement({});
  expect_agreement({.destination = {true, true, at::kFloat}});
}

INSTANTIATE_TEST_SUITE_P(Ladder, LevelsAgreeInChunks, testing::ValuesIn(runs(/*takes_large_cases=*/true)), run_name);

}  // namespace
}  // namespace strata::kernels
