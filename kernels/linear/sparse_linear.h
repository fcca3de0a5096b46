// SPDX-License-Identifier: MIT
// A linear layer that multiplies with a pruned weight: in the forward by sparse tensor cores, or by op linear with the
// zeros.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/runtime/level.h"
#include "kernels/sparsity/prune_group.h"

namespace strata::kernels {

using at::Tensor;

// x [..., I], weight [O, I], bias [O] or undefined, of one dtype -> y [..., O] = x pruned(weight)^T + bias. Gradients:
//   grad_x      = grad_y pruned(weight)
//   grad_weight = grad_y^T x   for pruned elements too: the straight-through estimator (Bengio et al. 2013)
//   grad_bias   = sum of grad_y over the rows
// Each call of forward and backward prunes the weight as it is then. Where multiplies_sparse() is true and there are
// kFewestSparseRows, y comes from sparse_product(), as does grad_x under a transposable mask, and op linear computes
// the other gradients. Elsewhere op linear computes all, at `level`, but level torchscript has the backward of level
// aten. In inference mode level cuda multiplies few rows (few_rows.h) at level aten. Gradients of weight and bias go to
// their gradient destinations. Saves x and weight. Throws a ValueError if four does not divide I, or if a shape or
// dtype does not match.
Tensor sparse_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Level level,
                     PruneMask mask = PruneMask::rows);

}  // namespace strata::kernels
