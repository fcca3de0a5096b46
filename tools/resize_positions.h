// SPDX-License-Identifier: MIT
// Learned positions of the patches of an image, for images of another size.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace strata::tools {

// fp32 [prefix + from_side^2, D] -> [prefix + to_side^2, D], bicubic with antialiasing, as timm does it; what stands
// before the patches, a class token, stays as it is.
at::Tensor resize_positions(const at::Tensor& positions, int64_t from_side, int64_t to_side);

}  // namespace strata::tools
