// SPDX-License-Identifier: MIT
// prune: a weight with 2:4 sparsity. Of each four neighboring elements of a row two are kept, and the others become
// zeros (Mishra et al., "Accelerating Sparse Deep Neural Networks", 2021).
//
// With PruneMask::rows the two of largest magnitude are kept. Among equal magnitudes those with the lowest indices are,
// and NaN counts as larger than infinity.
// With PruneMask::transposable the transpose is pruned as well (Hubara et al., "Accelerated Sparse Neural Training: A
// Provable and Efficient Method to Find N:M Transposable Masks", 2021): of each 4 x 4 elements two are kept in each row
// and in each column. Of the 90 patterns it is the one with the largest sum of magnitudes, and among equal ones the
// first of transposable_patterns.h. Sums are in fp32: the two of a row are added first, and then the rows in their
// order. Magnitudes above 2^124, infinity and NaN count as 2^124. So a weight that became NaN is kept and the loss
// shows it.
//
// This is no op with levels. LibTorch operators compute it on CPUs, and a kernel that reads the weight once on GPUs,
// with the same bits. Nothing is recorded for autograd: the functions return tensors that require no gradient.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/sparsity/prune_group.h"

namespace strata::kernels {

using at::Tensor;

// weight [..., width], fp32, bf16 or fp16, of any strides -> bool of the same sizes, true for elements that are kept.
// With a transposable mask the weight is a matrix [rows, width]. Throws a ValueError if the dtype is another or if
// groups of four do not divide the width, or the rows under a transposable mask.
Tensor kept_of_four(const Tensor& weight, PruneMask mask = PruneMask::rows);

// Returns `weight` with +0 where kept_of_four() is false. Other elements keep their bits.
Tensor pruned(const Tensor& weight, PruneMask mask = PruneMask::rows);

}  // namespace strata::kernels
