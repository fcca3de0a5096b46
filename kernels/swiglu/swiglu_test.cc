// SPDX-License-Identifier: MIT
// Checks the definition, which every level is compared with, against plain loops. So definition and level cannot have
// the same error.
#include "kernels/swiglu/swiglu.h"

#include <gtest/gtest.h>

#include "kernels/activation/plain_activation.h"
#include "kernels/proof/plain_tensor.h"

namespace strata::kernels {
namespace {

TEST(Formula, Swiglu) {
  const int64_t width = 6;
  const Plain x = ramp(2 * width);
  for (const Activation kind : {Activation::silu, Activation::gelu_tanh}) {
    Plain expected;
    for (int64_t k = 0; k < width; ++k) expected.push_back(plain_activation(x[k], kind) * x[width + k]);
    expect_equal(swiglu(tensor(x, {1, 2 * width}), kind, kFormulaLevel), expected);
  }
}

}  // namespace
}  // namespace strata::kernels
