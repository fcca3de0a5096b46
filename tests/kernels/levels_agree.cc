// SPDX-License-Identifier: MIT
// Checks every op at every level that it has, in every dtype: results and all gradients against the formula in fp64.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "kernels/level_matrix.h"
#include "kernels/linear/linear.h"
#include "kernels/op_proofs.h"
#include "kernels/proof/case_check.h"
#include "kernels/proof/evaluation.h"
#include "tests/kernels/gpus/asked_architecture.h"
#include "tests/kernels/test_device.h"

namespace strata::kernels {
namespace {

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

  // Compares the results of the case, run in `way` at the level, with the formula on the same rounded inputs.
  void expect_agreement(Way way) const {
    const WayScope scope(way);
    for (auto& [name, setting] : settings_of(way, op_case())) {
      SCOPED_TRACE(name);
      setting.dtype = GetParam().dtype;
      setting.device = test_device();
      const auto values = values_of_level(setting);
      if (!values) continue;
      for (const auto& [value, found] : check().deviations(*values, GetParam().level, setting, chunks())) {
        EXPECT_TRUE(found.agreed()) << value << ": " << found.words;
        double& share = slots()[slot()].shares[{setting.dtype, is_gradient(value)}];
        share = std::max(share, found.share);
      }
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

  // All levels and ways share the formula of a case, which takes 1 GB for all of them. The levels of a case are tested
  // one after another and share what gradients in buffers are compared with. For all cases it would take several GB.
  CaseCheck& check() const {
    static std::map<std::pair<size_t, at::ScalarType>, CaseCheck> checks;
    static size_t checked_case = cases().size();
    const size_t index = GetParam().op_case;
    const at::ScalarType dtype = GetParam().dtype;
    if (std::exchange(checked_case, index) != index) {
      for (auto& [key, check] : checks) check.forget_buffers();
    }
    return checks.try_emplace({index, dtype}, op_case(), tolerance_of(op_case().op()), dtype).first->second;
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

TEST_P(LevelsAgree, WithTheFormula) { expect_agreement(Way::plain); }
TEST_P(LevelsAgree, OnStridedInputs) { expect_agreement(Way::strided); }
TEST_P(LevelsAgree, OnUnalignedInputs) { expect_agreement(Way::unaligned); }
TEST_P(LevelsAgree, WhenNewTensorsHoldNaN) { expect_agreement(Way::nan_filled); }
TEST_P(LevelsAgree, WithoutGradients) { expect_agreement(Way::no_gradients); }
TEST_P(LevelsAgree, WhenOnlyOneGradientIsNeeded) { expect_agreement(Way::one_gradient); }
TEST_P(LevelsAgree, WhenOnlyOneOutputHasAGradient) { expect_agreement(Way::one_output); }
TEST_P(LevelsAgree, WhenWeightGradientsHaveDestinations) { expect_agreement(Way::destinations); }

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
  for (const Way way : kWaysOfLargeCases) expect_agreement(way);
}

INSTANTIATE_TEST_SUITE_P(Ladder, LevelsAgreeInChunks, testing::ValuesIn(runs(/*takes_large_cases=*/true)), run_name);

}  // namespace
}  // namespace strata::kernels
