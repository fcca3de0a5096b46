// SPDX-License-Identifier: MIT
// prune: a weight with 2:4 sparsity. Of each four neighboring elements of a row, the two of largest magnitude are kept,
// and the others become zeros (Mishra et al., "Accelerating Sparse Deep Neural Networks", 2021).
//
// This is no op with levels. LibTorch operators compute it on CPUs, and a kernel that reads the weight once on GPUs,
// with the same bits. Nothing is recorded for autograd: the functions return tensors that require no gradient.
#pragma once

#include <ATen/core/Tensor.h>

namespace strata::kernels {

using at::Tensor;

// weight [..., width], fp32, bf16 or fp16, of any strides -> bool of the same sizes, true for elements that are kept.
// Among equal magnitudes the elements with the lowest indices are kept. NaN counts as larger than infinity, so a weight
// that became NaN is kept and the loss shows it. Throws a ValueError if the dtype is another or if groups of four do
// not divide the width.
Tensor kept_of_four(const Tensor& weight);

// Returns `weight` with +0 where kept_of_four() is false. Other elements keep their bits.
Tensor pruned(const Tensor& weight);

}  // namespace strata::kernels
