// SPDX-License-Identifier: MIT
// fp8_operand: a matrix as FP8 operands of cuBLASLt products, written on the GPU by two kernels, or by one if the
// largest magnitude of the matrix is known. A Hopper GPU multiplies FP8 matrices only if the summed dimension of both
// is contiguous. So a training step needs the codes of a matrix in rows for one product, and the codes of its transpose
// for another.
//
// Codes and scale are those of quantize() in kernels/quantize/quantize.h for scaling `tensor` and rounding to nearest
// even, bit for bit. A NaN or an infinity in x makes the scale NaN and all codes 0x7f, which is NaN.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/quantize/number_format.h"

namespace strata::kernels {

using at::Tensor;

// Which layouts of a matrix a product needs.
enum class OperandLayouts { rows, columns, both };

// The dtype of the codes is Float8_e4m3fn or Float8_e5m2. A layout that was not asked for is undefined.
struct Fp8Operand {
  Tensor rows;     // [R, C]
  Tensor columns;  // [C, ceil(R / 16) * 16], the transpose; the last ceil(R / 16) * 16 - R codes of each row are 0
  Tensor scale;    // fp32 [1] on the device: a code times the scale is the number it stands for
  Tensor amax;     // the largest magnitude of the matrix, as in kernels/cuda/amax.h; undefined without elements
};

// x [R, C], fp32, bf16 or fp16, on a Hopper GPU, C a multiple of 16. Rows may be any multiple of 16 bytes apart. Other
// strides, and data that is not at a 16-byte boundary, cost a copy. Element e4m3 or e5m2. Nothing is recorded for
// autograd. A meta tensor gives meta tensors, and nothing is launched. x is read twice; for bf16 and both layouts, 6
// bytes are moved for each element. `amax` is that of an earlier operand of the same x, or is written by the kernel
// that wrote x: x is then read once, and 4 bytes are moved. Throws a ValueError if an argument is none of these.
Fp8Operand fp8_operand(const Tensor& x, Element element, OperandLayouts layouts, const Tensor& amax = {});

}  // namespace strata::kernels
