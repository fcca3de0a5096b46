// SPDX-License-Identifier: MIT
// Every algorithm that may be chosen for a product computes it, whole tiles or not, and gives the same bits twice.
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/cuda/gemm_call.h"
#include "kernels/cuda/is_on_hopper.h"
#include "kernels/proof/agreement.h"

namespace strata::kernels {
namespace {

struct Sizes {
  int64_t tokens, inputs, outputs;
};

// The three products of a linear layer; the gradient of the weight is also added to sums in fp32.
enum class Product { forward, input_gradient, weight_gradient, added_weight_gradient };

class GemmTilesOnGpu : public testing::TestWithParam<Product> {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "not run: there is no GPU";
  }
};

Tensor random(int64_t rows, int64_t columns) {
  return at::randn({rows, columns}, at::TensorOptions(at::kCUDA).dtype(at::kBFloat16));
}

Gemm product_of(Product product, const Sizes& s) {
  const Tensor x = random(s.tokens, s.inputs), weight = random(s.outputs, s.inputs);
  const Tensor grad_y = random(s.tokens, s.outputs);
  switch (product) {
    case Product::forward:
      return {.a = x, .b = weight.t()};
    case Product::input_gradient:
      return {.a = grad_y, .b = weight};
    case Product::weight_gradient:
      return {.a = grad_y.t(), .b = x};
    case Product::added_weight_gradient:
      return {.a = grad_y.t(), .b = x, .add = true};
  }
  return {};
}

TEST_P(GemmTilesOnGpu, EqualTheProductInFp64) {
  at::manual_seed(1);
  for (const Sizes& s :
       {Sizes{8192, 1600, 1600}, Sizes{2048, 1600, 4800}, Sizes{1000, 776, 1608}, Sizes{264, 136, 40}}) {
    SCOPED_TRACE(std::to_string(s.tokens) + " x " + std::to_string(s.inputs) + " -> " + std::to_string(s.outputs));
    Gemm gemm = product_of(GetParam(), s);
    const Tensor a = gemm.a.to(at::kDouble), b = gemm.b.to(at::kDouble);
    const std::vector<int64_t> sizes = {a.size(0), b.size(1)};
    const auto type = gemm.add ? at::kFloat : at::kBFloat16;
    const Tensor before = gemm.add ? at::randn(sizes, gemm.a.options().dtype(type)) : Tensor();
    const auto start = [&] { return gemm.add ? before.clone() : at::full(sizes, NAN, gemm.a.options().dtype(type)); };
    Tensor exact = at::mm(a, b);
    if (gemm.add) exact = exact + before;
    // Tensor cores add 16 products at a time to a sum in fp32, and each such sum is cut off.
    const double sums = static_cast<double>(a.size(1)) / 16;
    const Comparison comparison({.exact = exact, .rounded = exact.to(type)},
                                {.dtype = type, .roundings = std::max(64.0, sums), .largest = largest(exact)});
    // The product of all but the last columns of `a` is wrong, and must be refused.
    const int64_t most = a.size(1) - 8;
    Tensor wrong = at::mm(a.narrow(1, 0, most), b.narrow(0, 0, most));
    if (gemm.add) wrong = wrong + before;
    ASSERT_FALSE(comparison.agreement(wrong.to(type)).agreed());
    gemm.out = start();
    GemmCall call("linear", gemm);
    std::vector<GemmChoice> candidates = call.candidates();
    const std::vector<GemmChoice> others = call.other_candidates();
    if (is_on_hopper(gemm.out) && s.inputs == 1600) {
      EXPECT_GE(others.size(), 1U);
    }
    const size_t proposed = candidates.size();
    candidates.insert(candidates.end(), others.begin(), others.end());
    for (size_t i = 0; i < candidates.size(); ++i) {
      SCOPED_TRACE((i < proposed ? "proposed " : "other tile ") + std::to_string(i));
      const Tensor once = start(), twice = start();
      ASSERT_EQ(call.launch(candidates[i], once.mutable_data_ptr(), gemm.add), CUBLAS_STATUS_SUCCESS);
      ASSERT_EQ(call.launch(candidates[i], twice.mutable_data_ptr(), gemm.add), CUBLAS_STATUS_SUCCESS);
      const Agreement agreement = comparison.agreement(once);
      EXPECT_TRUE(agreement.agreed()) << agreement.words;
      EXPECT_TRUE(at::equal(once, twice)) << "other bits the second time";
    }
  }
}

std::string name_of(const testing::TestParamInfo<Product>& info) {
  constexpr const char* kNames[] = {"forward", "input_gradient", "weight_gradient", "added_weight_gradient"};
  return kNames[static_cast<int>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Products, GemmTilesOnGpu,
                         testing::Values(Product::forward, Product::input_gradient, Product::weight_gradient,
                                         Product::added_weight_gradient),
                         name_of);

}  // namespace
}  // namespace strata::kernels
