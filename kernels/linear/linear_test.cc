// SPDX-License-Identifier: MIT
// Checks the definition, which every level is compared with, against plain loops. So definition and level cannot have
// the same error.
#include "kernels/linear/linear.h"

#include <gtest/gtest.h>

#include "kernels/activation/plain_activation.h"
#include "kernels/proof/plain_tensor.h"

namespace strata::kernels {
namespace {

TEST(Formula, Linear) {
  const int64_t rows = 3, in = 4, out = 2;
  const Plain x = ramp(rows * in), weight = ramp(out * in), bias = ramp(out);
  for (const Activation kind : {Activation::none, Activation::gelu, Activation::gelu_tanh, Activation::relu}) {
    Plain expected;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < out; ++j) {
        double sum = bias[j];
        for (int64_t k = 0; k < in; ++k) sum += x[i * in + k] * weight[j * in + k];
        expected.push_back(plain_activation(sum, kind));
      }
    }
    expect_equal(linear(tensor(x, {rows, in}), tensor(weight, {out, in}), tensor(bias, {out}), kind, kFormulaLevel),
                 expected);
  }
}

}  // namespace
}  // namespace strata::kernels
