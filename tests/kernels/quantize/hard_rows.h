// SPDX-License-Identifier: MIT
// Rows of fp32 numbers on which wrong quantizers differ from right ones. All have kHardWidth columns, on the CPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace strata::kernels {

using at::Tensor;

inline constexpr int64_t kHardWidth = 256;

// For each power of two, rows whose largest numbers are it and the numbers just below and above. Then rows of equal
// numbers, of numbers halfway between two values, and of blocks that are very different.
Tensor finite_rows();

// Rows with an infinity or a NaN.
Tensor rows_with_lost_numbers();

}  // namespace strata::kernels
