// SPDX-License-Identifier: MIT
// fp8_operand: a matrix as FP8 operands of cuBLASLt products, written on the GPU by two kernels, or by one if the
// largest magnitudes of the matrix are known. A Hopper GPU multiplies FP8 matrices only if the summed dimension of both
// is contiguous. So a training step needs the codes of a matrix in rows for one product, and the codes of its transpose
// for another.
//
// quantize() in kernels/quantize/quantize.h has the same codes and scales for rounding to nearest even, bit for bit.
// With scaling `row` the transpose is quantized apart, so an element has two codes: one with the scale of its row, and
// one with the scale of its column. A NaN or an infinity in x makes its scales NaN and all codes that have them 0x7f,
// which is NaN.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/quantize/delayed_scale.h"
#include "kernels/quantize/number_format.h"

namespace strata::kernels {

using at::Tensor;

// Which layouts of a matrix a product needs.
enum class OperandLayouts { rows, columns, both };

// The dtype of the codes is Float8_e4m3fn or Float8_e5m2. A layout that was not asked for is undefined.
struct Fp8Operand {
  Tensor rows;     // [R, C]
  Tensor columns;  // [C, ceil(R / 16) * 16], the transpose; the last ceil(R / 16) * 16 - R codes of each row are 0
  // fp32 on the device: a code times its scale is the number it stands for. With scaling `tensor` both are the same
  // tensor [1]; with `row` they are [R] and [C], and one is undefined if its codes are undefined.
  Tensor rows_scale, columns_scale;
  Tensor tensor_scale;  // undefined except for NVFP4: block_operand.h
  // int32, undefined without elements: the largest magnitude of the matrix, as in kernels/cuda/amax.h. With scaling
  // `row` [R + C]: the fp32 bits of the largest magnitudes of the rows, and then of the columns.
  Tensor amax;
};

// x [R, C], fp32, bf16 or fp16, on a Hopper GPU, C a multiple of 16. Rows may be any multiple of 16 bytes apart. Other
// strides, and data that is not at a 16-byte boundary, cost a copy. Element e4m3 or e5m2, scaling tensor or row.
// Nothing is recorded for autograd. A meta tensor gives meta tensors, and nothing is launched. x is read twice; for
// bf16 and both layouts, 6 bytes are moved for each element. `amax` comes from an earlier operand of the same x and
// scaling, or, for scaling tensor, is written by the kernel that wrote x: x is then read once, and 4 bytes are moved.
// With a history in `delayed`, for scaling tensor, x is read once too. The kernel that writes the codes then finds and
// records the largest magnitude, unless `amax` has it, and Fp8Operand::amax has no values that were not given. Throws a
// ValueError if an argument is not as described here.
Fp8Operand fp8_operand(const Tensor& x, QuantizedFormat format, OperandLayouts layouts, const Tensor& amax = {},
                       const DelayedScale& delayed = {});

}  // namespace strata::kernels
