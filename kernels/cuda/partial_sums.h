// SPDX-License-Identifier: MIT
// The end of a weight's gradient at level triton: partial sums, one row per program, added up in a fixed order.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/runtime/weight_gradient.h"

namespace strata::kernels {

// How many programs share `rows` rows of `width` when each leaves one row of partial sums: what an H100's 132
// multiprocessors hold at a time when a thread has 8 elements and 64 registers.
int64_t partial_sum_programs(int64_t rows, int64_t width);

// The sum over the rows of partials fp32 [programs, width] goes where `into` says; returned, it has the kind of `like`.
Tensor sum_partials(const Tensor& partials, const Tensor& like, const WeightGradient& into);

}  // namespace strata::kernels
