// SPDX-License-Identifier: MIT
// Resizes learned positions of image patches to another image size.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace strata::tools {

// fp32 [prefix + from_side^2, D] -> [prefix + to_side^2, D], bicubic with antialiasing, as in timm. The prefix, a class
// token, does not change.
at::Tensor resize_positions(const at::Tensor& positions, int64_t from_side, int64_t to_side);

}  // namespace strata::tools
