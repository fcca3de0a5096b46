// SPDX-License-Identifier: MIT
// Checks the rule of agreement itself: it refuses wrong kernels, in each dtype by itself. That it accepts honest ones:
// honest_kernels_test.cc.
#include <ATen/ops/tensor.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <string>

#include "kernels/proof/agreement.h"
#include "kernels/proof/evaluation.h"
#include "tests/kernels/mutants/case_verdict.h"
#include "tests/kernels/mutants/defined_cases.h"
#include "tests/kernels/mutants/mutants.h"

namespace strata::kernels {
namespace {

constexpr auto kDtypes = {at::kFloat, at::kBFloat16, at::kHalf};

// Returns what is expected of the cases of a mutant, before the mistake.
const std::vector<CaseVerdict>& right_of(const Mutant& mutant, at::ScalarType dtype) {
  static std::map<std::pair<std::string_view, at::ScalarType>, std::vector<CaseVerdict>> all;
  std::vector<CaseVerdict>& right = all[{mutant.function, dtype}];
  if (!right.empty()) return right;
  for (const OpCase& op_case : defined_cases(mutant.function, definition_in(mutant.formula))) {
    right.emplace_back(op_case, dtype);
  }
  return right;
}

bool is_refused(const Mutant& mutant, at::ScalarType dtype) {
  const std::vector<CaseVerdict>& right = right_of(mutant, dtype);
  const auto wrong = defined_cases(mutant.function, mutated(definition_in(mutant.formula), mutant, bits_of_16(dtype)));
  for (size_t i = 0; i < wrong.size(); ++i) {
    std::vector<Tensor> values;
    try {
      for (const Value& value : evaluate(wrong[i], Level::torchscript, {.dtype = dtype})) values.push_back(value.value);
    } catch (const c10::Error& error) {
      // This is the only mistake that evaluate() itself refuses.
      const std::string_view words = error.what_without_backtrace();
      if (words.find(": no gradient of leaf") == std::string_view::npos) throw;
      return true;
    }
    if (!right[i].refusal(wrong[i], values).empty()) return true;
  }
  return false;
}

TEST(Verdict, RefusesWrongKernels) {
  size_t in_any = 0;
  std::map<at::ScalarType, size_t> in_dtype;
  for (const Mutant& mutant : mutants()) {
    bool refused = false;
    for (const at::ScalarType dtype : kDtypes) {
      const bool here = is_refused(mutant, dtype);
      refused = refused || here;
      in_dtype[dtype] += here ? 1 : 0;
      if (!here) {
        std::printf("%s passes in %s: %s\n", std::string(mutant.function).c_str(), toString(dtype),
                    std::string(mutant.wrong).c_str());
      }
    }
    in_any += refused ? 1 : 0;
  }
  const auto all = static_cast<double>(mutants().size());
  std::printf("%zu of %.0f wrong kernels are refused\n", in_any, all);
  EXPECT_GE(mutants().size(), 200U);
  EXPECT_GE(static_cast<double>(in_any), 0.99 * all);
  for (const auto& [dtype, count] : in_dtype) {
    std::printf("%zu of them in %s\n", count, toString(dtype));
    EXPECT_GE(static_cast<double>(count), 0.95 * all) << dtype;
  }
}

// A kernel that leaves a NaN where the formula overflows, or the other infinity, is wrong.
TEST(Verdict, KnowsNaNFromBothInfinities) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
  const auto agrees = [](double value, double exact, double rounded) {
    const auto row = [](double number) { return at::tensor({number, 1.0, 2.0, 3.0}, at::kDouble); };
    return agreement(row(value), {row(exact), row(rounded)}, {.dtype = at::kHalf}).agreed();
  };
  const double kinds[] = {kNan, kInfinity, -kInfinity, 1.0};
  for (const double expected : kinds) {
    for (const double value : kinds) {
      const bool same = std::isnan(value) ? std::isnan(expected) : value == expected;
      EXPECT_EQ(agrees(value, expected, expected), same) << value << " for " << expected;
    }
  }
  // 70,000 is infinity in fp16.
  for (const double value : kinds) EXPECT_EQ(agrees(value, 7e4, kInfinity), value == kInfinity) << value;
  // A difference of two such numbers is NaN in fp16. In another order it is an infinity.
  for (const double value : kinds) EXPECT_EQ(agrees(value, 0.0, kNan), value != 1.0) << value;
  for (const double value : kinds) EXPECT_EQ(agrees(value, kInfinity, kNan), value != 1.0) << value;
}

}  // namespace
}  // namespace strata::kernels
