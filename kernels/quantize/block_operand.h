// SPDX-License-Identifier: MIT
// block_operand: a matrix as MXFP8 or NVFP4 operands of cuBLASLt products, which GPUs of compute capability 10.0 or
// more have. Blocks that share a scale lie along the dimension that is summed. So a matrix and its transpose have codes
// and scales of their own.
//
// Codes and scales equal quantize() in kernels/quantize/quantize.h for rounding to nearest even, bit for bit: of x, and
// of its transpose with rows that zeros fill up to a multiple of 32. The codes of these zeros are 0. A NaN or an
// infinity makes the scales of its blocks NaN, and with NVFP4 the scale of the tensor too.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/quantize/fp8_operand.h"
#include "kernels/quantize/number_format.h"

namespace strata::kernels {

using at::Tensor;

inline constexpr int64_t kBlockOperandUnit = 32;  // widths are multiples of it: a block of MXFP8, 16 bytes of NVFP4

// x [R, C], fp32, bf16 or fp16, on a GPU of compute capability 9.0 or more, C a multiple of 32. Strides are as in
// fp8_operand(). Scaling mx of element e4m3 or e5m2: x is read once. Scaling nv of element e2m1: x is read twice, or
// once with the `amax` of an earlier operand of the same x. Nothing is recorded for autograd. A meta tensor gives meta
// tensors, and nothing is launched. Returns, where P is R rounded up to a multiple of 32:
//   rows, columns             mx: [R, C] and [C, P], Float8_e4m3fn or Float8_e5m2
//                             nv: [R, C / 2] and [C, P / 2], Float4_e2m1fn_x2: the first of two codes has the low bits
//   rows_scale, columns_scale the tiles of kernels/cuda/scale_tiles.h, mx: Float8_e8m0fnu, nv: Float8_e4m3fn
//   tensor_scale              nv: fp32 [1]
//   amax                      nv: as with scaling `tensor`
// The tensors of a layout that `layouts` leaves out are undefined. Throws a ValueError if x, format or amax is not as
// described here.
Fp8Operand block_operand(const Tensor& x, QuantizedFormat format, OperandLayouts layouts, const Tensor& amax = {});

}  // namespace strata::kernels
