// SPDX-License-Identifier: MIT
// Codes of a weight in e4m3 with one scale (scaling tensor), of which each rank makes the codes of its shard. Codes and
// scale equal quantize() of the whole weight in kernels/quantize/quantize.h for rounding to nearest even, bit
// for bit, on every device.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/quantize/fp8_operand.h"
#include "kernels/quantize/weight_codes.h"

namespace strata::kernels {

// The scales of weights whose largest magnitudes are `amax`, both fp32 [n].
Tensor scales_of_weights(const Tensor& amax);

// codes <- the codes of x, a part of a weight with this scale. x [n] is fp32, bf16 or fp16, codes [n] are uint8, both
// contiguous, scale is fp32 [1]. On a Hopper GPU it is one kernel. Elsewhere LibTorch's operators take a part after
// another, so that they need little memory. A meta tensor gets the first part only. Throws a ValueError if the
// arguments do not match.
void write_weight_codes(const Tensor& x, const Tensor& scale, const Tensor& codes);

// The operand of a weight [R, C] on a Hopper GPU, both multiples of 16, that was gathered as codes. Rows are the codes
// themselves, and for columns a kernel transposes them. Fp8Operand::amax is undefined. Throws a ValueError if the
// weight is not on a Hopper GPU.
Fp8Operand fp8_operand_of_codes(const WeightCodes& weight, OperandLayouts layouts);

}  // namespace strata::kernels
