// SPDX-License-Identifier: MIT
// Checks the rule of agreement itself: it refuses wrong kernels, in each dtype by itself, and accepts honest ones.
#include <ATen/ops/tensor.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <string>

#include "kernels/op_proofs.h"
#include "kernels/proof/agreement.h"
#include "kernels/runtime/torchscript_runtime.h"
#include "tests/kernels/evaluation.h"
#include "tests/kernels/mutants/defined_cases.h"
#include "tests/kernels/mutants/mutants.h"

namespace strata::kernels {
namespace {

constexpr auto kDtypes = {at::kFloat, at::kBFloat16, at::kHalf};

const std::string& definition_in(std::string_view file) {
  static std::map<std::string, std::string, std::less<>> texts;
  std::string& text = texts[std::string(file)];
  if (text.empty()) {
    std::ostringstream all;
    all << std::ifstream("kernels/" + std::string(file) + ".py").rdbuf();
    text = all.str();
  }
  return text;
}

// Significant bits of an intermediate result that is kept in 16 bits. In fp32 it is fp16, the finer of the two types.
int bits_of_16(at::ScalarType dtype) { return dtype == at::kBFloat16 ? 8 : 11; }

// A case as its definition computes it: in a dtype, and exactly, in fp64.
struct Definition {
  Definition(const OpCase& op_case, at::ScalarType dtype)
      : in_dtype(evaluate(op_case, Level::torchscript, {.dtype = dtype})) {
    const auto exact = evaluate(rounded(op_case, dtype), Level::torchscript, {.variances_of = dtype});
    for (size_t i = 0; i < in_dtype.size(); ++i) {
      comparisons.emplace_back(Expected{exact.at(i).value, in_dtype[i].value, exact.at(i).variance},
                               bounds_of(in_dtype[i], tolerance_of(op_case.op())));
    }
  }

  // Returns the first sentence that refuses a value, or nothing. The values are fp64, in the order of `in_dtype`.
  std::string refusal(const OpCase& op_case, const std::vector<Tensor>& values) const {
    for (size_t i = 0; i < values.size(); ++i) {
      const Agreement found = comparisons.at(i).agreement(values[i]);
      if (!found.agreed()) return op_case.name + ", " + in_dtype.at(i).name + ": " + found.words;
    }
    return "";
  }

  std::vector<Value> in_dtype;
  std::vector<Comparison> comparisons;
};

// Returns what is expected of the cases of a mutant, before the mistake.
const std::vector<Definition>& right_of(const Mutant& mutant, at::ScalarType dtype) {
  static std::map<std::pair<std::string_view, at::ScalarType>, std::vector<Definition>> all;
  std::vector<Definition>& right = all[{mutant.function, dtype}];
  if (!right.empty()) return right;
  for (const OpCase& op_case : defined_cases(mutant.function, definition_in(mutant.formula))) {
    right.emplace_back(op_case, dtype);
  }
  return right;
}

bool is_refused(const Mutant& mutant, at::ScalarType dtype) {
  const std::vector<Definition>& right = right_of(mutant, dtype);
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

// A kernel that computes all of an op in fp32 and rounds its results once.
TEST(Verdict, AcceptsKernelsThatRoundOnce) {
  size_t results = 0;
  for (const OpCase& op_case : op_cases()) {
    for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
      const Definition definition(op_case, dtype);
      std::vector<Tensor> values;
      for (const Value& value : evaluate(rounded(op_case, dtype), Level::torchscript, {.dtype = at::kFloat})) {
        const at::ScalarType stored = definition.in_dtype.at(values.size()).dtype;
        values.push_back(value.value.to(stored).to(at::kDouble));
      }
      results += values.size();
      EXPECT_EQ(definition.refusal(op_case, values), "") << toString(dtype);
    }
  }
  EXPECT_GE(results, 1000U);
  std::printf("%zu honest results\n", results);
}

}  // namespace
}  // namespace strata::kernels
