// SPDX-License-Identifier: MIT
// Edge weights and scores as kernels read them.
#pragma once

#include <ATen/core/Tensor.h>

namespace strata::kernels {

// Returns a contiguous tensor of fp32, or an undefined tensor for an undefined one.
inline at::Tensor contiguous_fp32(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.to(at::kFloat).contiguous() : tensor;
}

}  // namespace strata::kernels
