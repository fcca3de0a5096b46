// SPDX-License-Identifier: MIT
// Checks the definition, which every level is compared with, against plain loops. So definition and level cannot have
// the same error.
#include "kernels/rms_norm/rms_norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/proof/plain_tensor.h"

namespace strata::kernels {
namespace {

TEST(Formula, RmsNorm) {
  const int64_t rows = 2, width = 5;
  const Plain residual = ramp(rows * width), branch = ramp(rows * width, 0.3), weight = ramp(width, 0.7);
  Plain sum, expected;
  for (int64_t i = 0; i < rows * width; ++i) sum.push_back(residual[i] + branch[i]);
  for (int64_t i = 0; i < rows; ++i) {
    double square = 0;
    for (int64_t k = 0; k < width; ++k) square += std::pow(sum[i * width + k], 2) / width;
    for (int64_t k = 0; k < width; ++k) {
      expected.push_back(sum[i * width + k] / std::sqrt(square + 0.01) * weight[k]);
    }
  }
  const Tensor w = tensor(weight, {width});
  expect_equal(rms_norm(tensor(sum, {rows, width}), w, 0.01, kFormulaLevel), expected);
  const NormedSum added =
      add_rms_norm(tensor(residual, {rows, width}), tensor(branch, {rows, width}), w, 0.01, kFormulaLevel);
  expect_equal(added.y, expected);
  expect_equal(added.sum, sum);
}

}  // namespace
}  // namespace strata::kernels
