// SPDX-License-Identifier: MIT
// The last step of a weight gradient at level triton: adds partial sums, one row per program, in a fixed order.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/runtime/gradient_destination.h"

namespace strata::kernels {

// The number of programs that share `rows` rows of `width` elements, each with one row of partial sums. It is what the
// multiprocessors of the GPU can run at the same time with 8 elements and 64 registers per thread.
int64_t partial_sum_programs(int64_t rows, int64_t width);

// Adds partials fp32 [programs, width] over its rows and accumulates the sum [width] in `into`. If it is returned
// instead, it has the dtype and device of `like`.
Tensor sum_partials(const Tensor& partials, const Tensor& like, const GradientDestination& into);

}  // namespace strata::kernels
