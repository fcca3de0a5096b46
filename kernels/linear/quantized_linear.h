// SPDX-License-Identifier: MIT
// A linear layer that multiplies in a number format. fp8_linear.h computes FP8 at level cuda, and MXFP8 and NVFP4 on
// a GPU with products of blocks. All else is emulated: operands are rounded, and op linear multiplies them.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/quantize/delayed_scale.h"
#include "kernels/quantize/number_format.h"
#include "kernels/runtime/level.h"

namespace strata::kernels {

using at::Tensor;

// x [..., I], weight [O, I], bias [O] or undefined, of one dtype -> y [..., O] = x weight^T + bias. With q for values
// and g for gradients, each rounded along the dimension over which its product sums, to the nearest value:
//   y           = q(x) q(weight)^T + bias             along I
//   grad_x      = g(grad_y) q(weight^T)^T             along O
//   grad_weight = g(grad_y^T) q(x^T)^T                along the tokens, which zeros fill up to a whole block
//   grad_bias   = sum of grad_y over the tokens, which is not rounded
// Products have the dtype of x. Emulated, in inference mode level cuda multiplies few rows (few_rows.h) at level aten.
// Gradients of weight and bias go to their gradient destinations. Saves x and weight when emulated. With delayed
// scales, forward and backward have the same ones and record each operand; a forward without gradients records nothing.
// Throws a ValueError if a block of a format does not divide I or O, or if a shape or dtype does not match.
Tensor quantized_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const ProductFormats& formats,
                        Level level, const DelayedScales& scales = {});

}  // namespace strata::kernels
