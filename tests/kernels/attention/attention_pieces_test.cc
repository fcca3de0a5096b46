// SPDX-License-Identifier: MIT
// Checks the proof of attention at full size: pieces together are the definition, they take little memory, the
// variances are those of a kernel's roundings, and so the verdict accepts an honest kernel where gradients vanish.
#include "kernels/attention/attention_pieces.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "kernels/attention/attention_shape.h"
#include "kernels/attention/attention_variances.h"
#include "kernels/attention/pattern/parse_pattern.h"
#include "kernels/op_proofs.h"
#include "kernels/proof/workload_check.h"
#include "tests/kernels/attention/tensor_core_attention.h"
#include "trainer/memory/allocation_meter.h"

namespace strata::kernels {
namespace {

using Leaves = std::vector<Tensor>;

constexpr ScoreTerms kAllTerms = {.alibi = true, .softcap = 2, .sinks = true};

AttentionShape shape_of(int64_t batch, int64_t positions, const std::string& pattern, const ScoreTerms& terms = {}) {
  return {batch,
          positions,
          /*heads=*/6,
          /*key_value_heads=*/3,
          /*head_width=*/8,
          parse_pattern(pattern),
          /*deterministic=*/false,
          terms};
}

std::vector<AttentionShape> shapes() {
  std::vector<AttentionShape> all;
  for (const std::string pattern :
       {"full", "causal", "causal & window(9)", "causal & dilated(9, 4)", "causal | prefix(20)", "blocks(0.5, 7)",
        "causal & (window(5) | global(3))", "causal & documents"}) {
    all.push_back(shape_of(2, 75, pattern));
    all.push_back(shape_of(2, 75, pattern, kAllTerms));
  }
  all.push_back(shape_of(1, 33, "window(4) & prefix(4)", {.sinks = true}));  // late queries see only the sink
  all.push_back(shape_of(3, 1, "causal"));
  // Queries that are a part of each row.
  for (AttentionShape shape : {shape_of(2, 75, "causal"), shape_of(2, 75, "causal & documents", kAllTerms)}) {
    shape.first_query = 17;
    shape.queries = 41;
    all.push_back(shape);
  }
  return all;
}

Leaves results_and_gradients(const Workload& workload, const Inputs& inputs, const Leaves& gradients) {
  Leaves results = workload.run(inputs, Level::torchscript);
  for (const Tensor& gradient : torch::autograd::grad(results, inputs.leaves, gradients)) results.push_back(gradient);
  return results;
}

TEST(AttentionPieces, AreTheDefinition) {
  for (const AttentionShape& shape : shapes()) {
    SCOPED_TRACE(shape.text());
    const Workload workload = make_workload(shape, at::kDouble, at::kCPU);
    const Inputs inputs = fresh_inputs(workload);
    const Leaves gradients = {
        at::randn({shape.batch, shape.query_count(), shape.heads * shape.head_width}, at::kDouble)};
    const Leaves expected = results_and_gradients(workload, inputs, gradients);
    // Pieces of 32 queries, the last of 11, and of one query.
    for (const int64_t elements : {2 * 75 * 2 * 32, shape.positions < 75 ? 1 : 1 << 30}) {
      const Leaves found = workload.formula(inputs, gradients, elements);
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i) {
        ASSERT_EQ(found[i].sizes(), expected[i].sizes());
        EXPECT_LE(largest(found[i] - expected[i]), 1e-12) << i << ", pieces of " << elements;
      }
    }
  }
}

// y and gradients of 16-bit leaves are rounded once, however many pieces there are.
TEST(AttentionPieces, RoundResultsOnce) {
  const Workload workload = make_workload(shape_of(1, 75, "causal", kAllTerms), at::kBFloat16, at::kCPU);
  const Inputs inputs = fresh_inputs(workload);
  const Leaves gradients = {at::randn({1, 75, 48}, at::kBFloat16)};
  const Leaves whole = workload.formula(inputs, gradients, int64_t{1} << 30),
               pieces = workload.formula(inputs, gradients, 1);
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_EQ(pieces[i].scalar_type(), at::kBFloat16);
    // A sum in fp32 that is near the middle of two numbers of bf16 may be rounded to either.
    EXPECT_LE(pieces[i].ne(whole[i]).to(at::kDouble).mean().item<double>(), 0.01) << i;
  }
}

TEST(AttentionPieces, NeverHoldAllPairs) {
  const int64_t positions = 1024, elements = int64_t{1} << 15;
  for (const std::string pattern : {"blocks(0.5, 7)", "causal & documents"}) {
    for (const ScoreTerms& terms : {ScoreTerms{}, kAllTerms}) {
      const Workload workload = make_workload(shape_of(1, positions, pattern, terms), at::kDouble, at::kCPU);
      const Inputs inputs = fresh_inputs(workload);
      const Leaves gradients = {at::randn({1, positions, 48}, at::kDouble)};
      SCOPED_TRACE(workload.shape.text());
      workload.formula(inputs, gradients, elements);  // TorchScript optimizes the formula
      trainer::AllocationMeter meter(at::kCPU);
      workload.formula(inputs, gradients, elements);
      workload.variances(inputs.leaves, gradients, at::kBFloat16, elements);
      const int64_t packed = inputs.leaves[0].numel();
      const int64_t most = meter.counts().peak_bytes;
      EXPECT_LE(most, 8 * (16 * elements + 8 * packed));
      EXPECT_LE(4 * most, 8 * 6 * positions * positions);  // a quarter of the scores of all pairs
    }
  }
}

// The mean square of a kernel's errors before the rounding of its results is about the variance. Numbers are not all
// just above a power of two, and a row with one key has no error of its share, so it is less.
TEST(AttentionVariances, AreThoseOfRoundings) {
  for (const AttentionShape& shape :
       {shape_of(4, 150, "causal"), shape_of(4, 150, "causal & dilated(9, 4)"), shape_of(4, 150, "full", kAllTerms),
        shape_of(4, 150, "causal & documents", {.softcap = 0.5}), shape_of(4, 150, "window(3)", {.sinks = true})}) {
    SCOPED_TRACE(shape.text());
    const Workload workload = make_workload(shape, at::kBFloat16, at::kCPU);
    const Inputs inputs = fresh_inputs(workload);
    Inputs wide = inputs;
    for (Tensor& leaf : wide.leaves) leaf = leaf.detach().to(at::kDouble).requires_grad_();
    const Leaves gradients = {at::randn({4, 150, 48}).to(at::kBFloat16)},
                 wide_gradients = {gradients[0].to(at::kDouble)};
    const Leaves exact = workload.formula(wide, wide_gradients, int64_t{1} << 20);
    const auto variances = workload.variances(inputs.leaves, gradients, at::kBFloat16, int64_t{1} << 12);
    const AttentionMask mask = {shape.pattern, has_word(shape.pattern, Pattern::Kind::documents)
                                                   ? at::arange(0, 601, 150, at::kInt)
                                                   : Tensor()};
    const AttentionTerms terms = {shape.terms.alibi, shape.terms.softcap,
                                  shape.terms.sinks ? inputs.leaves[1] : Tensor()};
    const Tensor y = tensor_core_attention(inputs.leaves[0], {6, 3, mask, terms});
    Leaves found = {y};
    for (const Tensor& gradient : torch::autograd::grad({y}, inputs.leaves, gradients)) found.push_back(gradient);
    for (size_t i = 1; i < found.size(); ++i) {
      // The rounding of the result is part of the error that is found.
      const Tensor error = (found[i].to(at::kDouble) - exact[i]).square();
      const Tensor result_variance = exact[i].square() * std::pow(unit_roundoff(at::kBFloat16), 2) / 3;
      const Tensor expected = variances[i].element_variance.to(at::kDouble) + result_variance;
      const double ratio = error.sum().item<double>() / expected.sum().item<double>();
      EXPECT_GE(ratio, i == 2 ? 0.05 : 0.25) << i;  // few sinks have few errors
      EXPECT_LE(ratio, i == 2 ? 3 : 0.8) << i;
      if (i > 1) continue;
      // Row by row too, and where gradients vanish.
      const Tensor rows = error.sum(-1).flatten().div(expected.sum(-1).flatten());
      EXPECT_LE(largest(rows), 4) << i;
    }
  }
}

// Each query is in one part, and keys and values are in all.
TEST(AttentionVariances, OfPartsAddUpToThoseOfRows) {
  for (const std::string pattern : {"causal", "window(9) | prefix(20)"}) {
    const Tensor qkv = at::randn({2, 75, 12 * 8}, at::kDouble), sinks = at::randn({6}, at::kDouble),
                 grad_y = at::randn({2, 75, 6 * 8}, at::kDouble);
    const Tensor query = qkv.narrow(2, 0, 6 * 8), key_value = qkv.narrow(2, 6 * 8, 6 * 8);
    const AttentionTerms terms = {/*alibi=*/true, /*softcap=*/2, sinks};
    const auto variances = [&](const Tensor& queries, const Tensor& grad, const KeysOfRows& keys) {
      return attention_variances(queries, {6, 3, {parse_pattern(pattern)}, terms, keys}, grad, 0.01, 1000)
          .gradient_variances;
    };
    const Leaves whole = variances(qkv, grad_y, {});
    Tensor key_sums = at::zeros_like(key_value), sink_sums = at::zeros_like(sinks);
    for (const auto& [first, count] : {std::pair{0, 20}, {20, 55}}) {
      const Leaves part = variances(query.narrow(1, first, count), grad_y.narrow(1, first, count), {key_value, first});
      EXPECT_LE(largest(part[0] - whole[0].narrow(1, first, count).narrow(2, 0, 6 * 8)), 1e-12);
      key_sums.add_(part[1]);
      sink_sums.add_(part[2]);
    }
    EXPECT_LE(largest(key_sums - whole[0].narrow(2, 6 * 8, 6 * 8)), 1e-12);
    EXPECT_LE(largest(sink_sums - whole[1]), 1e-12);
  }
}

Workload tensor_core_workload(const AttentionShape& shape, at::ScalarType dtype, Mistake mistake) {
  Workload workload = make_workload(shape, dtype, at::kCPU);
  workload.factors[0] *= 2;  // these tests are about gradients; levels_agree_test holds the bound of y
  workload.run = [shape, mistake](const Inputs& in, Level) -> Leaves {
    const AttentionTerms terms = {shape.terms.alibi, shape.terms.softcap, shape.terms.sinks ? in.leaves[1] : Tensor()};
    return {tensor_core_attention(in.leaves[0], {shape.heads, shape.key_value_heads, {shape.pattern}, terms}, mistake)};
  };
  return workload;
}

// Rows of one or two keys: their gradients are nearly 0, and the rounding of y is not.
TEST(AttentionVerdict, AcceptsHonestKernelsWhereGradientsVanish) {
  for (const auto& [dtype, terms] : {std::pair{at::kBFloat16, ScoreTerms{}},
                                     {at::kHalf, ScoreTerms{}},
                                     {at::kBFloat16, ScoreTerms{.alibi = true, .sinks = true}},
                                     {at::kBFloat16, ScoreTerms{.softcap = 5}}}) {
    const AttentionShape shape = {8, 64, 32, 8, 64, parse_pattern("causal & dilated(256, 4)"), false, terms};
    const Verdict found = verdict(tensor_core_workload(shape, dtype, Mistake::none), Level::aten);
    EXPECT_TRUE(found.agreed) << dtype << ", " << shape.text() << ": " << found.words;
    EXPECT_LE(found.share, 0.8) << dtype << ", " << shape.text();
  }
}

TEST(AttentionVerdict, RefusesSmallMistakes) {
  for (const auto& [dtype, pattern] :
       {std::pair{at::kBFloat16, "causal & dilated(256, 4)"}, {at::kBFloat16, "causal"}, {at::kHalf, "causal"}}) {
    for (const Mistake mistake : {Mistake::delta_without_a_column, Mistake::delta_of_next_row, Mistake::steeper_scores,
                                  Mistake::no_early_gradients, Mistake::coarse_shares}) {
      const AttentionShape shape = {2, 64, 8, 2, 64, parse_pattern(pattern)};
      const Verdict found = verdict(tensor_core_workload(shape, dtype, mistake), Level::aten);
      EXPECT_FALSE(found.agreed) << dtype << ", " << shape.text() << ", mistake " << static_cast<int>(mistake);
    }
  }
}

// Two sums that are rounded before they are added are honest, and one of them alone is not.
TEST(AttentionVerdict, KnowsTwoSumsOfAPrefix) {
  for (const auto dtype : {at::kBFloat16, at::kHalf}) {
    for (const std::string pattern :
         {"causal | prefix(3)", "causal | prefix(16)", "causal | prefix(40)", "causal | prefix(63)"}) {
      const AttentionShape shape = {4, 64, 16, 4, 64, parse_pattern(pattern)};
      const Verdict honest = verdict(tensor_core_workload(shape, dtype, Mistake::none), Level::aten);
      EXPECT_TRUE(honest.agreed) << dtype << ", " << pattern << ": " << honest.words;
      EXPECT_LE(honest.share, 0.8) << dtype << ", " << pattern;
      for (const Mistake mistake : {Mistake::none_above, Mistake::diagonal_twice, Mistake::without_next_keys}) {
        const Verdict found = verdict(tensor_core_workload(shape, dtype, mistake), Level::aten);
        EXPECT_FALSE(found.agreed) << dtype << ", " << pattern << ", mistake " << static_cast<int>(mistake);
      }
    }
  }
}

}  // namespace
}  // namespace strata::kernels
