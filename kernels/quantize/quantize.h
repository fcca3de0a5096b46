// SPDX-License-Identifier: MIT
// quantize: numbers of 8, 6 or 4 bits with scales, and back. Products of such numbers are emulated: operands are
// rounded by rounded_to, and a product of another op multiplies the rounded operands in its own dtype. For products of
// codes on a GPU, fp8_operand.h and block_operand.h have kernels with the bits of this definition.
//
// This is no op with levels. The same LibTorch operators compute it for ops of every level, on CPUs and GPUs, with the
// same bits. Nothing is recorded for autograd: the functions return tensors that require no gradient.
//
// A scale follows from amax, the largest absolute value of the elements that share it. All divisions and products are
// in fp32, and `largest` is the largest value of the element:
//   tensor, row, block  scale = max(amax / largest, 2^-117)
//   mx                  scale = 2^k, k = max(floor(log2(amax)) - largest_exponent of the element, -127)
//   nv                  tensor_scale = max(amax of the tensor / (6 * 448), 2^-117)
//                       scale = e4m3(max(amax / 6 / tensor_scale, 2^-9)) * tensor_scale
// An element is x / scale, clamped to +-largest (it saturates) and rounded. The scale of mx follows section 6.3 of
// OCP Microscaling Formats 1.0.
//
// - A block of zeros has the smallest scale (2^-117; 2^-127 for mx; 2^-9 * tensor_scale for nv) and decodes to zeros.
//   Zeros keep their sign. Numbers that are far below the smallest scale become zeros.
// - A NaN or an infinity makes the scale NaN, so that a lost number is seen: NaN in fp32, 0xff in E8M0, 0x7f in E4M3.
//   All elements of the block decode to NaN. Their codes are NaN in e4m3 and e5m2, and 0 in other elements. With
//   scaling nv, tensor_scale becomes NaN too, and all elements of the tensor decode to NaN.
// - A delayed scale is computed as with scaling tensor, from the amax of earlier steps. Larger elements saturate. A NaN
//   or an infinity becomes NaN alone, and so may a number of 2^127 scales or more.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/quantize/delayed_scale.h"
#include "kernels/quantize/number_format.h"

namespace strata::kernels {

using at::Tensor;

struct Quantized {
  Tensor codes;         // uint8 [rows, width], one element in the low bits of each byte
  Tensor scales;        // [rows, blocks]; fp32 for tensor ([1, 1]), row and block; uint8 for mx (E8M0) and nv (E4M3)
  Tensor tensor_scale;  // fp32, 0-dim, with scaling nv; undefined for others
};

// x [rows, width], fp32, bf16 or fp16, of any strides. key: int64 [1] on the device of x for stochastic rounding,
// undefined for nearest_even. Stochastic rounding compares the hash of (key, site 0x7175616e, row, column) in
// kernels/runtime/element_hash.h, so one key always gives the same bits. Two tensors of one step need two keys. The
// mean of the results is x within 2^-32 of the distance of two values. `delayed`, for scaling tensor of e4m3 and e5m2,
// gives the amax of earlier steps, and records the amax of x. Throws a ValueError if the format has no name, if
// blocks do not divide the width, or if dtype, key or `delayed` do not match.
Quantized quantize(const Tensor& x, QuantizedFormat format, Rounding rounding, const Tensor& key,
                   const DelayedScale& delayed = {});

// Returns the numbers that codes and scales stand for, computed in fp32 and rounded to `type`: fp32, bf16 or fp16.
// Throws a ValueError if sizes or dtypes of the parts do not match the format.
Tensor dequantize(const Quantized& quantized, QuantizedFormat format, at::ScalarType type);

// Returns x as the format rounds it: dequantize(quantize(x, ...)) in the dtype of x, contiguous, without codes in
// memory.
Tensor rounded_to(const Tensor& x, QuantizedFormat format, Rounding rounding, const Tensor& key,
                  const DelayedScale& delayed = {});

}  // namespace strata::kernels
