// SPDX-License-Identifier: MIT
// Checks the definition, which every level is compared with, against plain loops. So definition and level cannot have
// the same error.
#include "kernels/rms_norm/rms_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/proof/plain_gradients.h"
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

// The sum is a result too, so its own gradient is added to the gradient of the norm. Residual and branch have the same
// gradient.
TEST(Formula, GradientsOfAddRmsNorm) {
  const int64_t rows = 2, width = 5;
  const Plain residual = ramp(rows * width), branch = ramp(rows * width, 0.3), weight = ramp(width, 0.7),
              grad_y = ramp(rows * width, 0.9), grad_sum = ramp(rows * width, 1.1);
  Plain sum_gradient, weight_gradient(width);
  for (int64_t i = 0; i < rows; ++i) {
    Plain sum;
    double square = 0, along = 0;
    for (int64_t k = 0; k < width; ++k) sum.push_back(residual[i * width + k] + branch[i * width + k]);
    for (int64_t k = 0; k < width; ++k) square += std::pow(sum[k], 2) / width;
    const double root = std::sqrt(square + 0.01);
    for (int64_t k = 0; k < width; ++k) {
      along += grad_y[i * width + k] * weight[k] * sum[k] / root / width;
      weight_gradient[k] += grad_y[i * width + k] * sum[k] / root;
    }
    for (int64_t k = 0; k < width; ++k) {
      const double norm_gradient = (grad_y[i * width + k] * weight[k] - sum[k] / root * along) / root;
      sum_gradient.push_back(norm_gradient + grad_sum[i * width + k]);
    }
  }
  const Tensor r = tensor(residual, {rows, width}).requires_grad_(), b = tensor(branch, {rows, width}).requires_grad_();
  const Tensor w = tensor(weight, {width}).requires_grad_();
  expect_gradients({r, b, w}, {tensor(grad_y, {rows, width}), tensor(grad_sum, {rows, width})},
                   {sum_gradient, sum_gradient, weight_gradient}, [&](Level level) {
                     const NormedSum added = add_rms_norm(r, b, w, 0.01, level);
                     return std::vector<Tensor>{added.y, added.sum};
                   });
}

}  // namespace
}  // namespace strata::kernels
