// SPDX-License-Identifier: MIT
// Checks the definition, which every level is compared with, against plain loops. So definition and level cannot have
// the same error.
#include "kernels/sum_of_squares/sum_of_squares.h"

#include <gtest/gtest.h>

#include "kernels/proof/plain_tensor.h"

namespace strata::kernels {
namespace {

TEST(Formula, SumOfSquares) {
  const Plain a = ramp(7), b = ramp(4, 0.2);
  double sum = 0;
  for (const double value : a) sum += value * value;
  for (const double value : b) sum += value * value;
  expect_equal(sum_of_squares({tensor(a, {7}), tensor(b, {2, 2})}, kFormulaLevel), {sum});
}

}  // namespace
}  // namespace strata::kernels
