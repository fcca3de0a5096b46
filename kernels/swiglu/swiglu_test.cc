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
  Plain expected;
  for (int64_t k = 0; k < width; ++k) expected.push_back(plain_activation(x[k], Activation::silu) * x[width + k]);
  expect_equal(swiglu(tensor(x, {1, 2 * width}), kFormulaLevel), expected);
}

}  // namespace
}  // namespace strata::kernels
