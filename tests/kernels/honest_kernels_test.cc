// SPDX-License-Identifier: MIT
// Checks that the rule of agreement accepts honest kernels, which add in another order or round what they must round,
// and that it still refuses the mistakes of wrong ones in them.
#include "tests/kernels/mutants/honest_kernels.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sum.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/op_proofs.h"
#include "tests/kernels/mutants/case_verdict.h"
#include "tests/kernels/mutants/defined_cases.h"
#include "tests/kernels/mutants/mutants.h"

namespace strata::kernels {
namespace {

constexpr auto kDtypes = {at::kFloat, at::kBFloat16, at::kHalf};
constexpr HonestKernel kAsDefined = {"as defined, rounded once"};

std::vector<HonestKernel> all_kernels(at::ScalarType dtype) {
  std::vector<HonestKernel> kernels = honest_kernels(dtype);
  if (dtype != at::kFloat) kernels.push_back(kAsDefined);  // in fp32 it is the formula
  return kernels;
}

TEST(HonestKernels, AddInTheOrderThatTheySay) {
  const Tensor a = at::randn({5, 300}), b = at::randn({300, 7});
  const auto differs = [&](const HonestKernel& kernel, const auto& compute) {
    const Tensor expected = compute();
    const Computing computing(kernel, at::kBFloat16);
    const Tensor value = compute();
    EXPECT_GT(computing.count(), 0) << kernel.name;
    EXPECT_TRUE(value.allclose(expected, 1e-2, 1e-1)) << kernel.name;
    return !at::equal(value, expected);
  };
  for (const HonestKernel& kernel : honest_kernels(at::kBFloat16)) {
    SCOPED_TRACE(kernel.name);
    if (kernel.sums != Sums::as_defined) {
      EXPECT_TRUE(differs(kernel, [&] { return at::sum(a.mul(1.1), {1}); }));
    }
    if (kernel.sums != Sums::as_defined || kernel.rounds_operands) {
      EXPECT_TRUE(differs(kernel, [&] { return at::mm(a, b); }));
    }
    if (kernel.streams_softmax) {
      EXPECT_TRUE(differs(kernel, [&] { return at::softmax(a.mul(1.1), 1); }));
    }
  }
}

TEST(HonestKernels, AreAccepted) {
  std::map<std::string, size_t> results;
  size_t all = 0, refused = 0;
  const auto check = [&](const OpCase& op_case, const CaseVerdict& verdict, at::ScalarType dtype,
                         const OpCase& computed, const HonestKernel& kernel, const std::string& name) {
    const Computing computing(kernel, dtype);
    const std::vector<Tensor> values = rounded_once(computed, dtype, verdict.in_dtype);
    const bool differs = computing.count() > 0 || kernel.name == kAsDefined.name;
    results[name] += differs ? values.size() : 0;  // others equal the definition
    all += differs ? values.size() : 0;
    const std::string words = verdict.refusal(op_case, values);
    refused += words.empty() ? 0 : 1;
    EXPECT_EQ(words, "") << name << ", " << toString(dtype);
  };
  for (const OpCase& op_case : op_cases()) {
    for (const at::ScalarType dtype : kDtypes) {
      const CaseVerdict verdict(op_case, dtype);
      for (const HonestKernel& kernel : all_kernels(dtype)) {
        check(op_case, verdict, dtype, op_case, kernel, std::string(kernel.name));
      }
    }
  }
  // The keys of attention and the classes of losses 64 at a time, output and softmax together.
  for (const auto& [file, function] :
       {std::pair<std::string_view, std::string_view>{"attention/attention", "attention"},
        {"attention/attention", kAttentionWithTerms},
        {"attention/attention", kAttentionOfPart},
        {"cross_entropy/cross_entropy", "cross_entropy"},
        {"linear_cross_entropy/linear_cross_entropy", "linear_cross_entropy"}}) {
    const std::string& definition = definition_in(file);
    ASSERT_NE(streamed(definition), definition) << file;
    const std::vector<OpCase> as_defined = defined_cases(function, definition),
                              cases = defined_cases(function, streamed(definition));
    for (size_t i = 0; i < cases.size(); ++i) {
      for (const at::ScalarType dtype : kDtypes) {
        const CaseVerdict verdict(as_defined[i], dtype);
        for (const HonestKernel& kernel : all_kernels(dtype)) {
          check(as_defined[i], verdict, dtype, cases[i], kernel, "streamed, " + std::string(kernel.name));
        }
      }
    }
  }
  for (const auto& [name, count] : results) std::printf("%zu results of: %s\n", count, name.c_str());
  std::printf("%zu honest results, %zu refused\n", all, refused);
  EXPECT_GE(all, 5000U);
}

// Returns whether the rule refuses a definition with this mistake that `kernel` computes, or nothing if the kernel
// computes it as it is defined. What it computes may also be refused before the rule sees it, because a leaf has no
// gradient.
std::optional<bool> is_refused(const Mutant& mutant, at::ScalarType dtype, const HonestKernel& kernel,
                               const std::vector<CaseVerdict>& right) {
  const auto wrong = defined_cases(mutant.function, mutated(definition_in(mutant.formula), mutant, bits_of_16(dtype)));
  const Computing computing(kernel, dtype);
  bool refused = false;
  for (size_t i = 0; i < wrong.size() && !(refused && computing.count() > 0); ++i) {
    try {
      refused |= !right[i].refusal(wrong[i], rounded_once(wrong[i], dtype, right[i].in_dtype)).empty();
    } catch (const c10::Error& error) {
      const std::string_view words = error.what_without_backtrace();
      if (words.find(": no gradient of leaf") == std::string_view::npos) throw;
      refused = true;
    }
  }
  const bool differs = computing.count() > 0 || kernel.name == kAsDefined.name;
  return differs ? std::optional(refused) : std::nullopt;
}

// Every seventh mistake, each in every honest kernel of its dtype.
TEST(HonestKernels, AreRefusedWithAMistake) {
  constexpr size_t kEach = 7;
  size_t pairs = 0, refused = 0;
  std::map<std::string_view, size_t> kernel_counts;
  for (size_t i = 0; i < mutants().size(); i += kEach) {
    const Mutant& mutant = mutants()[i];
    for (const at::ScalarType dtype : kDtypes) {
      std::vector<CaseVerdict> right;
      for (const OpCase& op_case : defined_cases(mutant.function, definition_in(mutant.formula))) {
        right.emplace_back(op_case, dtype);
      }
      if (!is_refused(mutant, dtype, kAsDefined, right).value()) continue;  // counted in verdict_mutation_test
      for (const HonestKernel& kernel : honest_kernels(dtype)) {
        const std::optional<bool> found = is_refused(mutant, dtype, kernel, right);
        if (!found) continue;
        ++pairs;
        refused += *found ? 1 : 0;
        kernel_counts[kernel.name] += *found ? 1 : 0;
        EXPECT_TRUE(*found) << mutant.function << " with '" << mutant.wrong << "' passes in " << toString(dtype) << ", "
                            << kernel.name;
      }
    }
  }
  std::printf("%zu of %zu honest kernels with a mistake are refused\n", refused, pairs);
  EXPECT_GE(pairs, 500U);
  for (const at::ScalarType dtype : kDtypes) {
    for (const HonestKernel& kernel : honest_kernels(dtype)) EXPECT_GE(kernel_counts[kernel.name], 30U) << kernel.name;
  }
}

}  // namespace
}  // namespace strata::kernels
