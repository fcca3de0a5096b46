// SPDX-License-Identifier: MIT
// The soft cap of logits and its gradient, against loops in double.
#include "kernels/cross_entropy/softcap.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace strata::kernels {
namespace {

// One of the logits is far outside of the cap.
Tensor logits_of(at::IntArrayRef sizes, at::ScalarType type) {
  const Tensor logits = at::randn(sizes, at::kDouble).mul_(20);
  if (logits.numel() > 0) logits.flatten()[0].fill_(400);
  return logits.to(type);
}

double largest_error(const Tensor& found, const Tensor& given, double (*expected)(double value)) {
  const Tensor wide = found.to(at::kDouble).flatten(), inputs = given.to(at::kDouble).flatten();
  double largest = 0;
  for (int64_t i = 0; i < inputs.numel(); ++i) {
    const double error = wide.const_data_ptr<double>()[i] - expected(inputs.const_data_ptr<double>()[i]);
    if (!(std::abs(error) <= largest)) largest = std::abs(error);  // NaN too
  }
  return largest;
}

double capped(double x) { return 30 * std::tanh(x / 30); }
double steepness(double x) { return 1 / (std::cosh(x / 30) * std::cosh(x / 30)); }

// The last sizes are several parts of rows.
TEST(CappedLogits, AreTheFormulaInEachType) {
  struct Type {
    at::ScalarType type;
    double value_bound, gradient_bound;  // half of a bit of the largest value, and the rounding of fp32 inside
  };
  for (const auto& [type, value_bound, gradient_bound] :
       {Type{at::kDouble, 1e-13, 1e-14}, {at::kFloat, 4e-6, 5e-7}, {at::kBFloat16, 0.0626, 0.00196}}) {
    for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{7, 11}, {2, 3, 5}, {1, 1}, {0, 4}, {3, 2'100'001}}) {
      SCOPED_TRACE(std::string(c10::toString(type)) + " rows of " + std::to_string(sizes.back()));
      const Tensor given = logits_of(sizes, type), leaf = given.clone().requires_grad_();
      const Tensor result = capped_logits(leaf * 1, 30);
      ASSERT_EQ(result.sizes(), given.sizes());
      ASSERT_EQ(result.scalar_type(), type);
      EXPECT_LE(largest_error(result, given, capped), value_bound);
      result.sum().backward();
      EXPECT_LE(largest_error(leaf.grad(), given, steepness), gradient_bound);
    }
  }
}

TEST(CappedLogits, CanBeDifferentiatedTwice) {
  const Tensor leaf = logits_of({5, 6}, at::kFloat).requires_grad_();
  const Tensor result = capped_logits(leaf * 1, 30), factor = at::randn({5, 6});
  result.backward(factor, /*retain_graph=*/true);
  const Tensor once = leaf.grad().clone();
  result.backward(factor * 2);
  EXPECT_TRUE(at::equal(leaf.grad(), once * 3));
}

// The loss that follows may overwrite its logits.
TEST(CappedLogits, GradientsDoNotReadTheResult) {
  const Tensor given = logits_of({5, 6}, at::kFloat), leaf = given.clone().requires_grad_();
  const Tensor result = capped_logits(leaf * 1, 30);
  result.detach().fill_(NAN);
  result.sum().backward();
  EXPECT_LE(largest_error(leaf.grad(), given, steepness), 5e-7);
}

TEST(CappedLogits, TakeNoMemoryWithoutGradients) {
  const at::NoGradGuard no_gradients;
  const Tensor given = logits_of({5, 6}, at::kFloat), logits = given.clone();
  const Tensor result = capped_logits(logits, 30);
  EXPECT_EQ(result.const_data_ptr(), logits.const_data_ptr());
  EXPECT_LE(largest_error(result, given, capped), 4e-6);
  EXPECT_TRUE(at::equal(capped_logits(given, 0), given)) << "0 is no cap";
}

}  // namespace
}  // namespace strata::kernels
