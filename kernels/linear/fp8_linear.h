// SPDX-License-Identifier: MIT
// A linear layer whose three products multiply FP8 operands on the tensor cores of a GPU, by cuBLASLt.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/linear/fp8_layer.h"

namespace strata::kernels {

using at::Tensor;

// The layer of quantized_linear() at level cuda if multiplies_in_fp8(), or on kBlockScaled if multiplies_in_blocks(),
// with the same operands and the same gradients. It differs in what it rounds and what it saves:
// - An operand is multiplied as its 8-bit codes, and the product by the scales, or each block by its scale. Emulated,
//   operands are rounded to the dtype of x before.
// - The forward keeps its sums on the tensor cores, in 14 bits (`fast_sums` in gemm.h), as Transformer Engine
//   does. Gradients add sums of 128 products in fp32.
// - It saves the 8-bit codes of x for the gradient of the weight, not x.
// x [..., I], weight [O, I], bias [O] or undefined, of one dtype on one GPU -> y [..., O]. `x_amax` is the largest
// magnitude of x as in kernels/cuda/amax.h, if scales are of the tensor and the kernel that wrote x found it; x is then
// read once.
Tensor fp8_linear(const Tensor& x, const Fp8Layer& layer, const Tensor& x_amax = {});

}  // namespace strata::kernels
