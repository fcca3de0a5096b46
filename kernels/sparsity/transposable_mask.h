// SPDX-License-Identifier: MIT
// transposable_mask: the mask of PruneMask::transposable by operators of LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

namespace strata::kernels {

// weight [rows, width], multiples of four, fp32, bf16 or fp16 -> bool of the same sizes, as prune.h defines it.
at::Tensor transposable_mask(const at::Tensor& weight);

}  // namespace strata::kernels
