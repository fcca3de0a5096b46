// SPDX-License-Identifier: MIT
// Checks the definition, which every level is compared with, against plain loops. So definition and level cannot have
// the same error.
#include "kernels/layer_norm/layer_norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/activation/plain_activation.h"
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

}  // namespace
}  // namespace strata::kernels
