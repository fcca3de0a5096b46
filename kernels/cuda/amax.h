// SPDX-License-Identifier: MIT
// kAmaxPartials: the form in which one kernel gives the largest magnitude of a matrix to the next.
#pragma once

namespace strata::kernels {

// The number of partial results, an int32 tensor. Each one is the fp32 bits of the largest |x| that a block has seen,
// or 0. As integers they have the order of the numbers, and NaN is above infinity. A block of 256 threads reads them
// with one load in each thread.
inline constexpr int kAmaxPartials = 1024;

}  // namespace strata::kernels
