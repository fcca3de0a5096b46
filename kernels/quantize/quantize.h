// SPDX-License-Identifier: MIT
// quantize: numbers of 8, 6 or 4 bits with scales, and back. Products of such numbers are emulated: operands are
// rounded by rounded_to, and a product of another op multiplies the rounded operands in its own dtype.
//
// This is no op with levels. The same LibTorch operators compute it beside every level, on CPUs and GPUs, and all give
// the same bits. Nothing is recorded for autograd: the functions return tensors that require no gradient.
//
// A scale follows from amax, the largest absolute value of the elements that share it:
//   tensor, row, block  max(amax / largest, 2^-117), largest = the largest value of the element; all in fp32
//   mx                  2^k, k = floor(log2(amax)) - largest_exponent of the element, at least -127: section 6.3 of MX 1.0
//   nv                  tensor scale t = max(amax / (6 * 448), 2^-117) of the whole tensor, in fp32; the scale of a block
//                       is e4m3(amax / 6 / t), at least 2^-9, and times t in fp32
// An element is x / scale, in fp32, which is clamped to +-largest (saturates) and then rounded to the element.
//
// - A block of zeros has the smallest scale (2^-117; 2^-127 for mx; 2^-9 * t for nv), and decodes to zeros. Zeros keep
//   their sign. Numbers far below the smallest scale become zeros.
// - A NaN or an infinity makes the scale of its block a NaN, so that a lost number is seen: fp32 NaN, 0xff in E8M0, 0x7f
//   in E4M3. All elements of the block decode to NaN; their codes are NaN in e4m3 and e5m2, and 0 in the others.
//   With scaling nv the scale of the tensor becomes NaN too, and so does the whole tensor.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/quantize/number_format.h"

namespace strata::kernels {

using at::Tensor;

struct Quantized {
  Tensor codes;   // uint8 [rows, width], one element in the low bits of each byte
  Tensor scales;  // [rows, blocks]; fp32 for tensor ([1, 1]), row and block; uint8 for mx (E8M0) and nv (E4M3)
  Tensor tensor_scale;  // fp32, 0-dim, with scaling nv; undefined for others
};

// x [rows, width], fp32, bf16 or fp16, of any strides. key: int64 [1] on the device of x for stochastic rounding,
// undefined for nearest_even. Stochastic rounding hashes (key, row, column), so one key always gives the same bits. Two
// tensors of one step need two keys. The mean of the results is x within 2^-32 of the distance of two values.
// Throws a ValueError if the format has no name, if blocks do not divide the width, or if dtype or key do not match.
Quantized quantize(const Tensor& x, QuantizedFormat format, Rounding rounding, const Tensor& key);

// Returns the numbers that codes and scales stand for, computed in fp32 and rounded to `type`: fp32, bf16 or fp16.
// Throws a ValueError if sizes or dtypes of the parts do not match the format.
Tensor dequantize(const Quantized& quantized, QuantizedFormat format, at::ScalarType type);

// What the format makes of x: dequantize(quantize(x, ...)) in the dtype of x, contiguous, without codes in memory.
Tensor rounded_to(const Tensor& x, QuantizedFormat format, Rounding rounding, const Tensor& key);

}  // namespace strata::kernels
