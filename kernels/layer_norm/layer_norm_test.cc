// SPDX-License-Identifier: MIT
// Checks the definition, which every level is compared with, against plain loops. So definition and level cannot have
// the same error.
#include "kernels/layer_norm/layer_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/activation/plain_activation.h"
#include "kernels/proof/plain_gradients.h"
#include "kernels/proof/plain_tensor.h"

namespace strata::kernels {
namespace {

TEST(Formula, LayerNorm) {
  const int64_t rows = 2, width = 5;
  const Plain residual = ramp(rows * width), branch = ramp(rows * width, 0.3), weight = ramp(width, 0.7),
              bias = ramp(width);
  Plain sum, expected, activated;
  for (int64_t i = 0; i < rows * width; ++i) sum.push_back(residual[i] + branch[i]);
  for (int64_t i = 0; i < rows; ++i) {
    double mean = 0, variance = 0;
    for (int64_t k = 0; k < width; ++k) mean += sum[i * width + k] / width;
    for (int64_t k = 0; k < width; ++k) variance += std::pow(sum[i * width + k] - mean, 2) / width;
    for (int64_t k = 0; k < width; ++k) {
      expected.push_back((sum[i * width + k] - mean) / std::sqrt(variance + 0.01) * weight[k] + bias[k]);
      activated.push_back(plain_activation(expected.back(), Activation::gelu_tanh));
    }
  }
  const Tensor s = tensor(sum, {rows, width}), w = tensor(weight, {width}), shift = tensor(bias, {width});
  expect_equal(layer_norm(s, w, shift, 0.01, kFormulaLevel), expected);
  expect_equal(layer_norm_gelu_tanh(s, w, shift, 0.01, kFormulaLevel), activated);
  const NormedSum added =
      add_layer_norm(tensor(residual, {rows, width}), tensor(branch, {rows, width}), w, shift, 0.01, kFormulaLevel);
  expect_equal(added.y, expected);
  expect_equal(added.sum, sum);
}

// The sum is a result too, so its own gradient is added to the gradient of the norm. Residual and branch have the same
// gradient.
TEST(Formula, GradientsOfAddLayerNorm) {
  const int64_t rows = 2, width = 5;
  const Plain residual = ramp(rows * width), branch = ramp(rows * width, 0.3), weight = ramp(width, 0.7),
              grad_y = ramp(rows * width, 0.9), grad_sum = ramp(rows * width, 1.1);
  Plain sum_gradient, weight_gradient(width), bias_gradient(width);
  for (int64_t i = 0; i < rows; ++i) {
    Plain sum, normalized;
    double mean = 0, variance = 0, mean_gradient = 0, along = 0;
    for (int64_t k = 0; k < width; ++k) sum.push_back(residual[i * width + k] + branch[i * width + k]);
    for (int64_t k = 0; k < width; ++k) mean += sum[k] / width;
    for (int64_t k = 0; k < width; ++k) variance += std::pow(sum[k] - mean, 2) / width;
    for (int64_t k = 0; k < width; ++k) normalized.push_back((sum[k] - mean) / std::sqrt(variance + 0.01));
    for (int64_t k = 0; k < width; ++k) {
      const double gradient = grad_y[i * width + k];
      mean_gradient += gradient * weight[k] / width;
      along += gradient * weight[k] * normalized[k] / width;
      weight_gradient[k] += gradient * normalized[k];
      bias_gradient[k] += gradient;
    }
    for (int64_t k = 0; k < width; ++k) {
      const double norm_gradient = grad_y[i * width + k] * weight[k] - mean_gradient - normalized[k] * along;
      sum_gradient.push_back(norm_gradient / std::sqrt(variance + 0.01) + grad_sum[i * width + k]);
    }
  }
  const Tensor r = tensor(residual, {rows, width}).requires_grad_(), b = tensor(branch, {rows, width}).requires_grad_();
  const Tensor w = tensor(weight, {width}).requires_grad_(), shift = tensor(ramp(width), {width}).requires_grad_();
  expect_gradients({r, b, w, shift}, {tensor(grad_y, {rows, width}), tensor(grad_sum, {rows, width})},
                   {sum_gradient, sum_gradient, weight_gradient, bias_gradient}, [&](Level level) {
                     const NormedSum added = add_layer_norm(r, b, w, shift, 0.01, level);
                     return std::vector<Tensor>{added.y, added.sum};
                   });
}

}  // namespace
}  // namespace strata::kernels
