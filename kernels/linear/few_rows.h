// SPDX-License-Identifier: MIT
// Products of few rows with a weight, as in a step of generation, by a CUDA kernel that takes as long as the weight
// takes to read. Level cuda of op linear uses it for such calls.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/activation/activation_kind.h"
#include "kernels/linear/linear.h"

namespace strata::kernels {

// True in inference mode if x [..., in] has 1 to 8 rows on a Hopper GPU, and if x and weight [out, in], of one type,
// are contiguous with rows at 16-byte boundaries. The kernel reads the weight before the kernels before it have ended,
// and only in inference mode no kernel writes weights.
bool are_few_rows(const Tensor& x, const Tensor& weight);

// True if op linear at `level` multiplies by this kernel.
inline bool multiplies_few_rows(Level level, const Tensor& x, const Tensor& weight) {
  return level == Level::cuda && are_few_rows(x, weight);
}

// Level cuda of op linear for such tensors. The product is rounded before the activation.
LinearOp::Forward linear_of_few_rows;

// x [..., in], weight [2 * out, in] and bias [2 * out] or undefined, for which are_few_rows is true -> y [..., out] =
// kind(gate) * up, where the product x weight^T + bias holds gate and then up. Equals op swiglu of op linear, and has
// no gradient. Throws a ValueError if a shape or dtype does not match.
Tensor gated_linear_of_few_rows(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation kind);

// The input rms_norm(x + branch) of a product. branch is undefined, or like x [..., D]; weight is [D].
struct NormedInput {
  Tensor x, branch, weight;
  double eps;
};

struct ProductOfNorm {
  Tensor y, sum;  // sum = x + branch
};

// True if are_few_rows is, and if the shared memory of a block holds the rows: at most 43 KB as 1, 2, 4 or 8 rows, and
// at most 4 rows of fp32.
bool are_few_normed_rows(const Tensor& x, const Tensor& weight);

// True if linear_of_norm() computes what op linear at `level` does with the norm of x.
inline bool product_can_normalize(Level level, const Tensor& x, const Tensor& weight) {
  return level == Level::cuda && are_few_normed_rows(x, weight);
}

// True if linear_of_norm() computes the norm as op rms_norm at `level` does.
constexpr bool norm_can_be_left_to_product(Level level) { return level == Level::cuda; }

// The product of a norm in one kernel, if are_few_normed_rows(input.x, weight). y = linear(norm), or
// with a gate gated_linear_of_few_rows(norm). sum and the input are rounded as by op add_rms_norm.
ProductOfNorm linear_of_norm(const NormedInput& input, const Tensor& weight, const Tensor& bias,
                             Activation gate = Activation::none);

}  // namespace strata::kernels
