// SPDX-License-Identifier: MIT
// What a norm with the residual added first returns.
#pragma once

#include <ATen/core/Tensor.h>

namespace strata::kernels {

struct NormedSum {
  at::Tensor y, sum;  // sum = residual + branch, y = norm(sum)
};

}  // namespace strata::kernels
