// SPDX-License-Identifier: MIT
// Checks the bound of the product of the error and y where a sink and few keys make up a row. There the rounding of the
// probabilities to 16 bits is most of the error of an honest kernel, and the formula in 16 bits has no such rounding.
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "kernels/attention/attention_pieces.h"
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
  Tensor of_kernel;
  Expected expected;
};

AttentionOp::Shape shape_of(const AttentionMask& mask, const Tensor& sinks) {
  return {kHeads, /*key_value_heads=*/1, mask, {.alibi = true, .softcap = 2, .sinks = sinks}};
}

// Returns the variance of the product of y and its error in each row, [sequences, positions, kHeads].
Tensor product_variances(const Tensor& qkv, const AttentionOp::Shape& shape, double roundoff) {
  const Tensor grad_y = at::zeros({qkv.size(0), qkv.size(1), kHeads * kHeadWidth}, qkv.options());
  return attention_variances(qkv, shape, grad_y, roundoff, int64_t{1} << 20)[0];
}

// qkv and sinks have the type of the kernel.
Results results_of(const Tensor& qkv, const Tensor& sinks, const AttentionMask& mask) {
  const at::NoGradGuard no_grad;
  const AttentionOp::Shape shape = shape_of(mask, sinks);
  const Tensor exact = attention_by_definition(qkv.to(at::kDouble), shape_of(mask, sinks.to(at::kDouble)));
  const Tensor of_products = product_variances(qkv, shape, unit_roundoff(qkv.scalar_type()));
  return {tensor_core_attention(qkv, shape),
          {exact, attention_by_definition(qkv, shape), {.of_products = of_products}}};
}

// Returns the agreement of `value` with what is expected, in `count` sequences.
Agreement agreement_of(const Tensor& value, const Expected& all, at::ScalarType dtype, int64_t first, int64_t count) {
  const auto part = [&](const Tensor& tensor) { return tensor.defined() ? tensor.narrow(0, first, count) : tensor; };
  const Expected expected = {part(all.exact), part(all.rounded), {.of_products = part(all.variance.of_products)}};
  return agreement(part(value), expected,
                   {.dtype = dtype, .factor = few_keys().factors[0], .row_width = few_keys().row_width});
}

bool refuses_the_product(const Agreement& agreement) {
  return agreement.words.find("product of error and result") != std::string::npos;
}

// The mean square of products of y and its error is their variance, if all else is fp64.
TEST(FewKeys, HaveTheVarianceOfRoundedProbabilities) {
  at::manual_seed(4);
  const Tensor qkv = at::randn({500, 12, (kHeads + 2) * kHeadWidth}, at::kDouble),
               sinks = at::randn({kHeads}, at::kDouble), by_head = qkv.unflatten(2, {-1, kHeadWidth}).transpose(1, 2);
  for (const std::string pattern : {"causal & window(2)", "causal & window(9)", "full"}) {
    const AttentionOp::Shape shape = shape_of({parse_pattern(pattern), {}}, sinks);
    const Tensor scores = scores_by_definition(by_head.narrow(1, 0, kHeads), by_head.narrow(1, kHeads, 1), shape,
                                               {.first_head = 0, .of_heads = kHeads});
    const Tensor all = at::cat({scores, sinks.view({-1, 1, 1}).expand({500, kHeads, 12, 1})}, -1).softmax(-1);
    const Tensor share = all.narrow(-1, 0, 12), value = by_head.narrow(1, kHeads + 1, 1);
    for (const auto dtype : {at::kBFloat16, at::kHalf}) {
      const Tensor error = at::matmul(share.to(dtype).to(at::kDouble) - share, value);
      const Tensor products = (error * at::matmul(share, value)).sum(-1);
      const Tensor variances = product_variances(qkv, shape, unit_roundoff(dtype));
      const double ratio = products.square().sum().item<double>() / variances.sum().item<double>();
      EXPECT_GE(ratio, 0.9) << pattern << ", " << dtype;
      EXPECT_LE(ratio, 1.1) << pattern << ", " << dtype;
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
    const Agreement agreed = agreement_of(results.of_kernel, results.expected, dtype, 0, 2);
    EXPECT_TRUE(agreed.agreed()) << dtype << ": " << agreed.words;
  }
}

// Draws of the first rows of such a case. Without the variance, the bound of the product refuses an honest kernel in
// about one of 100 draws. The root mean square does so in one of 2,000, because a row of one key may be most of a
// block.
TEST(FewKeys, AcceptTheProductsOfHonestKernels) {
  constexpr int64_t kDraws = 2000, kPositions = 12;
  for (const auto dtype : {at::kBFloat16, at::kHalf}) {
    at::manual_seed(5);
    const Tensor qkv = at::randn({kDraws, kPositions, (kHeads + 2) * kHeadWidth}).to(dtype),
                 sinks = at::randn({kHeads}).to(dtype);
    const Results results = results_of(qkv, sinks, {parse_pattern("causal & window(9)"), {}});
    const Expected without = {results.expected.exact, results.expected.rounded};
    int64_t refused = 0, products = 0, products_without = 0;
    for (int64_t draw = 0; draw < kDraws; ++draw) {
      const Agreement found = agreement_of(results.of_kernel, results.expected, dtype, draw, 1);
      refused += found.agreed() ? 0 : 1;
      products += refuses_the_product(found) ? 1 : 0;
      products_without += refuses_the_product(agreement_of(results.of_kernel, without, dtype, draw, 1)) ? 1 : 0;
    }
    std::printf("%s: of %ld draws %ld are refused, %ld by the product, and %ld without the variance\n", toString(dtype),
                kDraws, refused, products, products_without);
    EXPECT_EQ(products, 0) << dtype;
    EXPECT_GE(products_without, 4) << dtype;
    EXPECT_LE(refused, 4) << dtype;

    // A factor that is wrong by 0.75 roundings is found in eight sequences.
    for (const double wrong : {1 + 0.75 * unit_roundoff(dtype), 1 - 0.75 * unit_roundoff(dtype)}) {
      const Tensor values = results.of_kernel.to(at::kDouble) * wrong;
      for (int64_t first = 0; first < kDraws; first += 8) {
        const Agreement found = agreement_of(values, results.expected, dtype, first, 8);
        EXPECT_TRUE(refuses_the_product(found)) << dtype << ", " << wrong;
      }
    }
  }
}

}  // namespace
}  // namespace strata::kernels
