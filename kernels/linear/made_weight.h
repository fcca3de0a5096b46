// SPDX-License-Identifier: MIT
// linear_with_made_weight: op linear with a weight that another kernel of the same call makes.
#pragma once

#include "kernels/linear/few_rows.h"
#include "kernels/linear/linear.h"

namespace strata::kernels {

// The kernel of few rows reads its weight before the kernel that makes it has ended, so level aten multiplies them.
inline Tensor linear_with_made_weight(const Tensor& x, const Tensor& weight, const Tensor& bias, Level level) {
  const bool reads_early = multiplies_few_rows(level, x, weight);
  return linear(x, weight, bias, Activation::none, reads_early ? Level::aten : level);
}

}  // namespace strata::kernels
