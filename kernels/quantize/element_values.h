// SPDX-License-Identifier: MIT
// Elements without scales: rounding fp32 numbers to the values of an element, and values to codes and back. The
// arithmetic is exact except for the rounding itself, so the bits are the same on every device.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/quantize/number_format.h"

namespace strata::kernels {

using at::Tensor;

// Returns x in fp32, rounded to values of the element. What is larger than the largest value, infinity too, becomes the
// largest value with its sign. NaN stays NaN. Without a hash, x is rounded to nearest even. With one (int64 numbers in
// [0, 2^32) in the shape of x) the value further from 0 is taken where hash < 2^32 * (distance from the value nearer to
// 0, as a part of the distance of the two).
Tensor rounded_to_element(const Tensor& x, Element element, const Tensor& hash = {});

// Returns the uint8 codes of fp32 numbers that are values of the element. The code of NaN is 0x7f, or 0 if the element
// has no NaN.
Tensor codes_of(const Tensor& values, Element element);

// Returns the fp32 values of uint8 codes. Bits above the bits of the element are ignored.
Tensor values_of(const Tensor& codes, Element element);

}  // namespace strata::kernels
