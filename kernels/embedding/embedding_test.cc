// SPDX-License-Identifier: MIT
// Checks the definition, which every level is compared with, against plain loops. So definition and level cannot have
// the same error.
#include "kernels/embedding/embedding.h"

#include <gtest/gtest.h>

#include "kernels/proof/plain_tensor.h"

namespace strata::kernels {
namespace {

TEST(Formula, Embedding) {
  const Plain weight = ramp(4 * 2);
  const Tensor indices = tensor({3, 0, 3}, {3}).to(at::kLong);
  expect_equal(embedding(indices, tensor(weight, {4, 2}), kFormulaLevel),
               {weight[6], weight[7], weight[0], weight[1], weight[6], weight[7]});
}

}  // namespace
}  // namespace strata::kernels
