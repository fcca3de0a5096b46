// SPDX-License-Identifier: MIT
// Checks the definition, which every level is compared with, against plain loops. So definition and level cannot have
// the same error.
#include "kernels/cross_entropy/cross_entropy.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace strata::kernels
