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
