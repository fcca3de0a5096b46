// SPDX-License-Identifier: MIT
// The formulas of quantize.h for formats with scales of blocks: one block, and one number of a block. CPUs and kernels
// run this code.
#pragma once

#include <cuda_runtime_api.h>

#include <cstring>

#include "kernels/quantize/number_format.h"

namespace strata::kernels {

__host__ __device__ inline float float_of_bits(unsigned bits) {
  float number;
  std::memcpy(&number, &bits, sizeof number);
  return number;
}

__host__ __device__ inline unsigned bits_of_float(float number) {
  unsigned bits;
  std::memcpy(&bits, &number, sizeof bits);
  return bits;
}

template <Element kElement>
inline constexpr unsigned kLargestExponent = facts_of(kElement).largest_exponent();

// The E8M0 code with scaling mx. `amax` is the fp32 bits of the largest magnitude. A NaN or an infinity gives 0xff.
template <Element kElement>
__host__ __device__ constexpr unsigned e8m0_of(unsigned amax) {
  const unsigned exponent = amax >> 23;
  if (exponent == 0xff) return 0xff;
  return exponent > kLargestExponent<kElement> ? exponent - kLargestExponent<kElement> : 0;
}

// 1 / scale, for a code that e8m0_of() can give; NaN for 0xff. It is a power of two, so that a product with it is the
// quotient by the scale.
__host__ __device__ inline float inverse_of_e8m0(unsigned code) {
  return float_of_bits(code == 0xff ? 0x7fffffffu : (254 - code) << 23);
}

// The scale with scaling nv, before it is rounded to e4m3. `amax` as above. A NaN or an infinity gives NaN.
__host__ __device__ inline float nv_scale_of(unsigned amax, float tensor_scale) {
  if (amax >= 0x7f800000u) return float_of_bits(0x7fffffffu);
  const float scale = float_of_bits(amax) / 6.0f / tensor_scale;
  return scale < 0x1p-9f ? 0x1p-9f : scale;
}

// The value of a code of e4m3 without sign; NaN for 0x7f.
__host__ __device__ inline float value_of_e4m3(unsigned code) {
  const unsigned exponent = code >> 3, mantissa = code & 7;
  if (code == 0x7f) return float_of_bits(0x7fffffffu);
  if (exponent == 0) return static_cast<float>(mantissa) * 0x1p-9f;
  return float_of_bits((exponent + 120) << 23 | mantissa << 20);
}

// The code of e2m1 that is nearest, even if two are; 0 for NaN. Its values are 0, 0.5, 1, 1.5, 2, 3, 4 and 6, so it
// counts the numbers halfway between two that are passed. Hopper GPUs have no instruction for it.
__host__ __device__ inline unsigned e2m1_of(float x) {
  if (x != x) return 0;
  const unsigned bits = bits_of_float(x);
  const float size = float_of_bits(bits & 0x7fffffffu);
  const unsigned passed = (size > 0.25f) + (size >= 0.75f) + (size > 1.25f) + (size >= 1.75f) + (size > 2.5f) +
                          (size >= 3.5f) + (size > 5.0f);
  return bits >> 31 << 3 | passed;
}

// Packs codes of 4 bits that are bytes: bytes 0 to 3 of `low` and then of `high` become the bits from bit 0 on. So the
// first of two codes is in the low half of their byte.
__host__ __device__ inline unsigned packed_codes(unsigned low, unsigned high) {
  const unsigned low_pairs = (low | low >> 4) & 0x00ff00ffu, high_pairs = (high | high >> 4) & 0x00ff00ffu;
  return ((low_pairs | low_pairs >> 8) & 0xffffu) | (high_pairs | high_pairs >> 8) << 16;
}

}  // namespace strata::kernels
