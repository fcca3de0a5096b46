// SPDX-License-Identifier: MIT
// The largest width of rows at level triton, whose norms hold a row in registers (kernels/norms/norm_choices.py).
#pragma once

#include "kernels/runtime/call.h"

namespace strata::kernels {

inline constexpr int64_t kTritonNormMaxWidth = 16384;

inline void require_triton_width(std::string_view op, const at::Tensor& x) {
  require(x.size(-1) <= kTritonNormMaxWidth, op, Level::triton, "x is ", x.sizes(),
          ", expected a last dimension of at most ", kTritonNormMaxWidth);
}

}  // namespace strata::kernels
