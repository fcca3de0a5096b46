// SPDX-License-Identifier: MIT
// Checks the definition, which every level is compared with, against plain loops. So definition and level cannot have
// the same error.
#include "kernels/linear_cross_entropy/linear_cross_entropy.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/proof/plain_tensor.h"

namespace strata::kernels {
namespace {

void expect_formula(double softcap) {
  const int64_t rows = 3, classes = 4, width = 2;
  const Plain hidden = ramp(rows * width), weight = ramp(classes * width, 0.8);
  const std::vector<int64_t> targets = {2, -100, 0};
  double loss = 0;
  for (int64_t i = 0; i < rows; ++i) {
    if (targets[i] < 0) continue;
    Plain logits(classes);
    double total = 0;
    for (int64_t v = 0; v < classes; ++v) {
      for (int64_t k = 0; k < width; ++k) logits[v] += hidden[i * width + k] * weight[v * width + k];
      if (softcap != 0) logits[v] = softcap * std::tanh(logits[v] / softcap);
      total += std::exp(logits[v]);
    }
    for (int64_t v = 0; v < classes; ++v) {
      const double wanted = (v == targets[i] ? 0.8 : 0) + 0.2 / classes;
      loss -= 0.5 * wanted * std::log(std::exp(logits[v]) / total);
    }
  }
  expect_equal(linear_cross_entropy(tensor(hidden, {rows, width}), tensor(weight, {classes, width}),
                                    tensor({2, -100, 0}, {rows}).to(at::kLong), at::full({}, 0.5, at::kFloat), -100,
                                    0.2, softcap, kFormulaLevel),
               {loss});
}

TEST(Formula, LinearCrossEntropy) { expect_formula(/*softcap=*/0); }

TEST(Formula, LinearCrossEntropyWithASoftcap) { expect_formula(/*softcap=*/0.7); }

}  // namespace
}  // namespace strata::kernels
