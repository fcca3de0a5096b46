// SPDX-License-Identifier: MIT
// Checks the definition, which every level is compared with, against plain loops. So definition and level cannot have
// the same error.
#include "kernels/cross_entropy/cross_entropy.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/proof/plain_tensor.h"

namespace strata::kernels {
namespace {

TEST(Formula, CrossEntropy) {
  const int64_t rows = 3, classes = 4;
  const Plain logits = ramp(rows * classes, 0.9);
  const std::vector<int64_t> targets = {2, -100, 0};
  for (const double smoothing : {0.0, 0.2}) {
    double loss = 0;
    for (int64_t i = 0; i < rows; ++i) {
      if (targets[i] < 0) continue;
      double total = 0;
      for (int64_t v = 0; v < classes; ++v) total += std::exp(logits[i * classes + v]);
      for (int64_t v = 0; v < classes; ++v) {
        const double wanted = (v == targets[i] ? 1 - smoothing : 0) + smoothing / classes;
        loss -= 0.5 * wanted * std::log(std::exp(logits[i * classes + v]) / total);
      }
    }
    const Tensor scale = at::full({}, 0.5, at::kFloat);
    const Tensor target_tensor = tensor({2, -100, 0}, {rows}).to(at::kLong);
    expect_equal(cross_entropy(tensor(logits, {rows, classes}), target_tensor, scale, -100, smoothing, kFormulaLevel),
                 {loss});
  }
}

// The loss and the gradient of one row with the logits {0, -17, -17, ...}, in fp64. exp(-17) is 4.1e-8, below half an
// ulp of 1 in fp32, so a sum that holds the 1 loses it, however wide the vectors of the processor are. Together they
// are 4 % of the row's sum.
struct WideRow {
  static constexpr int64_t kClasses = (int64_t{1} << 20) + 1;

  WideRow(int64_t target, double smoothing) : target(target), smoothing(smoothing) {
    const double others = static_cast<double>(kClasses - 1);
    const double sum = 1 + others * std::exp(-17.0), log_p = -std::log(sum), low_log_p = -17.0 - std::log(sum);
    p = 1 / sum, low_p = std::exp(-17.0) / sum;
    loss = -(1 - smoothing) * (target == 0 ? log_p : low_log_p) -
           smoothing * (log_p + others * low_log_p) / static_cast<double>(kClasses);
    // 1 - p is others * low_p.
    const double class_share = smoothing / static_cast<double>(kClasses);
    gradient_of_0 = (target == 0 ? smoothing - others * low_p : p) - class_share;
    gradient_of_5 = (target == 5 ? low_p - (1 - smoothing) : low_p) - class_share;
    gradient_of_last = low_p - class_share;
  }

  Tensor logits() const {
    Tensor result = at::full({1, kClasses}, -17.0, at::kFloat);
    result.select(1, 0).zero_();
    return result;
  }
  Tensor loss_of(const Tensor& logits) const {
    return cross_entropy(logits, at::full({1}, target, at::kLong), at::full({}, 1.0, at::kFloat), -100, smoothing,
                         Level::aten);
  }

  int64_t target;
  double smoothing, p, low_p, loss, gradient_of_0, gradient_of_5, gradient_of_last;
};

TEST(CrossEntropy, LosesNoSmallNumbersOfAWideRow) {
  const auto expect_near = [](const Tensor& value, double expected) {
    EXPECT_NEAR(value.item<double>() / expected, 1, 1e-6) << value.item<double>() << ", expected " << expected;
  };
  for (const int64_t target : {0, 5}) {
    for (const double smoothing : {0.0, 0.1}) {
      SCOPED_TRACE("target " + std::to_string(target) + ", smoothing " + std::to_string(smoothing));
      const WideRow row(target, smoothing);
      const Tensor logits = row.logits().requires_grad_(), loss = row.loss_of(logits);
      const Tensor gradient = torch::autograd::grad({loss}, {logits})[0];
      expect_near(loss, row.loss);
      expect_near(gradient.select(1, 0), row.gradient_of_0);
      expect_near(gradient.select(1, 5), row.gradient_of_5);
      expect_near(gradient.select(1, WideRow::kClasses - 1), row.gradient_of_last);
      expect_near(row.loss_of(row.logits()), row.loss);  // as an evaluation, which needs no gradient
    }
  }
}

// The last backward overwrites what the forward saved, so no gradient before it may be that tensor.
TEST(CrossEntropy, LeavesGradientsOfAKeptGraphAsTheyAre) {
  const Tensor logits = tensor(ramp(12, 0.9), {3, 4}).detach().requires_grad_();
  const Tensor loss = cross_entropy(logits, tensor({2, -100, 0}, {3}).to(at::kLong), at::full({}, 0.5, at::kFloat),
                                    -100, /*label_smoothing=*/0, Level::aten);
  const auto gradient = [&](double factor, bool keep_graph) {
    return torch::autograd::grad({loss}, {logits}, {at::full({}, factor, loss.options().requires_grad(false))},
                                 keep_graph)[0];
  };
  const Tensor once = gradient(1.0, /*keep_graph=*/true), copy = once.clone();
  EXPECT_TRUE(at::equal(gradient(4.0, /*keep_graph=*/false), copy * 4));
  EXPECT_TRUE(at::equal(once, copy));
}

}  // namespace
}  // namespace strata::kernels
