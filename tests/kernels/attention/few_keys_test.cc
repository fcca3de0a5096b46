// SPDX-License-Identifier: MIT
// Checks the bounds of y where a sink and few keys make up a row. There the rounding of the probabilities to 16 bits is
// most of the error of an honest kernel, and the formula in 16 bits has no such rounding.
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "kernels/attention/attention_variances.h"
#include "kernels/attention/definition.h"
#include "kernels/attention/pattern/parse_pattern.h"
#include "kernels/op_proofs.h"
#include "tests/kernels/attention/tensor_core_attention.h"

namespace strata::kernels {
namespace {

// A case of levels_agree_test, whose four rows from row 28 on once refused level triton.
const OpCase& few_keys() {
  static const OpCase found = [] {
    for (const OpCase& op_case : op_cases()) {
      if (op_case.name == "attention_all_terms_documents_window_2x96x3x1x128") return op_case;
    }
    TORCH_CHECK(false, "attention lacks its case of few keys");
  }();
  return found;
}

constexpr int64_t kHeads = 3, kHeadWidth = 128;

// y of a kernel for tensor cores, and what is expected of it: [sequences, positions, kHeads * kHeadWidth].
struct Results {
  Tensor kernel_value;
  Expected expected;
};

AttentionOp::Arguments arguments_of(const AttentionMask& mask, const Tensor& sinks) {
  return {kHeads, /*key_value_heads=*/1, mask, {.alibi = true, .softcap = 2, .sinks = sinks}};
}

// Returns the variances of the rows of y, [sequences, positions, kHeads].
Variance variance_of(const Tensor& qkv, const AttentionOp::Arguments& arguments, at::ScalarType dtype) {
  const Tensor grad_y = at::zeros({qkv.size(0), qkv.size(1), kHeads * kHeadWidth}, qkv.options());
  const AttentionVariances of = attention_variances(qkv, arguments, grad_y, unit_roundoff(dtype), int64_t{1} << 20);
  return {.product_variance = of.product_variance, .square_variance = of.square_variance};
}

// qkv and sinks have the type of the kernel.
Results results_of(const Tensor& qkv, const Tensor& sinks, const AttentionMask& mask) {
  const at::NoGradGuard no_grad;
  const AttentionOp::Arguments arguments = arguments_of(mask, sinks);
  const Tensor exact = attention_by_definition(qkv.to(at::kDouble), arguments_of(mask, sinks.to(at::kDouble)));
  return {tensor_core_attention(qkv, arguments),
          {exact, attention_by_definition(qkv, arguments), variance_of(qkv, arguments, qkv.scalar_type())}};
}

// Returns the agreement of `value` with what is expected, in `count` sequences.
Agreement agreement_of(const Tensor& value, const Expected& all, at::ScalarType dtype, int64_t first, int64_t count) {
  const auto part = [&](const Tensor& tensor) { return tensor.defined() ? tensor.narrow(0, first, count) : tensor; };
  const Variance variance = {.product_variance = part(all.variance.product_variance),
                             .square_variance = part(all.variance.square_variance)};
  const Expected expected = {part(all.exact), part(all.rounded), variance};
  return agreement(part(value), expected,
                   {.dtype = dtype, .factor = few_keys().factors[0], .row_width = few_keys().row_width});
}

bool refuses(const Agreement& agreement, const char* what) { return agreement.words.find(what) != std::string::npos; }
constexpr char kProduct[] = "product of error and result", kMeanSquare[] = "root mean square error";

double mean(const Tensor& tensor) { return tensor.to(at::kDouble).mean().item<double>(); }

// The variances are those of products of y and its error, and of squares of its error, if all else is fp64. That of
// squares leaves out products of two keys, which are up to a sixth of it for twelve keys.
TEST(FewKeys, HaveTheVarianceOfRoundedProbabilities) {
  at::manual_seed(4);
  const Tensor qkv = at::randn({500, 12, (kHeads + 2) * kHeadWidth}, at::kDouble),
               sinks = at::randn({kHeads}, at::kDouble), by_head = qkv.unflatten(2, {-1, kHeadWidth}).transpose(1, 2);
  for (const std::string pattern : {"causal & window(2)", "causal & window(9)", "full"}) {
    const AttentionOp::Arguments arguments = arguments_of({parse_pattern(pattern), {}}, sinks);
    const Tensor scores = scores_by_definition(by_head.narrow(1, 0, kHeads), by_head.narrow(1, kHeads, 1), arguments,
                                               {.first_head = 0, .all_heads = kHeads});
    const Tensor all = at::cat({scores, sinks.view({-1, 1, 1}).expand({500, kHeads, 12, 1})}, -1).softmax(-1);
    const Tensor share = all.narrow(-1, 0, 12), value = by_head.narrow(1, kHeads + 1, 1);
    for (const auto dtype : {at::kBFloat16, at::kHalf}) {
      const Tensor error = at::matmul(share.to(dtype).to(at::kDouble) - share, value);
      const Tensor products = (error * at::matmul(share, value)).sum(-1);
      const Tensor mean_squares = at::matmul(share.square(), value.square().sum(-1, /*keepdim=*/true)).squeeze(-1) *
                                  (std::pow(unit_roundoff(dtype), 2) / (8 * std::numbers::ln2));
      const Variance variance = variance_of(qkv, arguments, dtype);
      const double products_ratio = mean(products.square()) / mean(variance.product_variance),
                   squares_ratio =
                       mean((error.square().sum(-1) - mean_squares).square()) / mean(variance.square_variance);
      SCOPED_TRACE(pattern + ", " + toString(dtype));
      EXPECT_GE(products_ratio, 0.9);
      EXPECT_LE(products_ratio, 1.1);
      EXPECT_GE(squares_ratio, 0.9);
      EXPECT_LE(squares_ratio, 1.3);
    }
  }
}

TEST(FewKeys, AcceptAnHonestKernel) {
  const std::vector<Tensor>& leaves = few_keys().leaves;
  std::vector<int32_t> offsets = {0, 5, 96, 160, 192};
  const AttentionMask mask = {parse_pattern("causal & window(9) & documents"),
                              at::from_blob(offsets.data(), {5}, at::kInt)};
  for (const auto dtype : {at::kBFloat16, at::kHalf}) {
    const Results results = results_of(leaves[0].to(dtype), leaves[1].to(dtype), mask);
    const Agreement agreed = agreement_of(results.kernel_value, results.expected, dtype, 0, 2);
    EXPECT_TRUE(agreed.agreed()) << dtype << ": " << agreed.words;
  }
}

// Draws of the first rows of such a case, and of rows that see a sink and one key. Without its variance, the bound of
// the product refuses an honest kernel in about one of 100 draws of the first, and the root mean square in one of 100
// to 500 draws of the second, because a row of one rounding may be most of a block.
TEST(FewKeys, AcceptHonestKernels) {
  constexpr int64_t kDraws = 1200, kPositions = 12;
  for (const auto& [pattern, bound] :
       {std::pair{"causal & window(9)", kProduct}, {"causal & window(1)", kMeanSquare}}) {
    int64_t without_variance = 0;
    for (const auto dtype : {at::kBFloat16, at::kHalf}) {
      SCOPED_TRACE(std::string(pattern) + ", " + toString(dtype));
      at::manual_seed(5);
      const Tensor qkv = at::randn({kDraws, kPositions, (kHeads + 2) * kHeadWidth}).to(dtype),
                   sinks = at::randn({kHeads}).to(dtype);
      const Results results = results_of(qkv, sinks, {parse_pattern(pattern), {}});
      const Expected without = {results.expected.exact, results.expected.rounded};
      for (int64_t draw = 0; draw < kDraws; ++draw) {
        const Agreement found = agreement_of(results.kernel_value, results.expected, dtype, draw, 1);
        EXPECT_TRUE(found.agreed()) << draw << ": " << found.words;
        without_variance += refuses(agreement_of(results.kernel_value, without, dtype, draw, 1), bound) ? 1 : 0;
      }

      // The same bound finds a factor that is wrong by 0.75 roundings in eight sequences.
      for (const double wrong : {1 + 0.75 * unit_roundoff(dtype), 1 - 0.75 * unit_roundoff(dtype)}) {
        const Tensor values = results.kernel_value.to(at::kDouble) * wrong;
        for (int64_t first = 0; first < kDraws; first += 8) {
          const Agreement found = agreement_of(values, results.expected, dtype, first, 8);
          EXPECT_TRUE(refuses(found, bound)) << first << ", " << wrong;
        }
      }
    }
    std::printf("%s: %s refuses %ld of %ld draws without the variance\n", pattern, bound, without_variance, 2 * kDraws);
    EXPECT_GE(without_variance, 3) << pattern;
  }
}

}  // namespace
}  // namespace strata::kernels
