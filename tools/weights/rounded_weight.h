// SPDX-License-Identifier: MIT
// Rounds weights to a narrower type, and refuses those that it cannot hold.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace strata::tools {

// Returns fp32 `values` as float, bfloat16 or float16. NaN and infinity stay. Throws Error (numerics) with `name` and
// the largest number if a finite one becomes infinite: float16 ends at 65504, bfloat16 at 3.39e38.
at::Tensor rounded_weight(const std::string& name, const at::Tensor& values, at::ScalarType type);

}  // namespace strata::tools
