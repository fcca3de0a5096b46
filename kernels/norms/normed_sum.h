// SPDX-License-Identifier: MIT
// NormedSum: the result of a norm that adds the residual first.
#pragma once

#include <ATen/core/Tensor.h>

namespace strata::kernels {

struct NormedSum {
  at::Tensor y, sum;  // sum = residual + branch, y = norm(sum)
};

}  // namespace strata::kernels
