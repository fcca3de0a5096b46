// SPDX-License-Identifier: MIT
// The scale of a block as quantize.h defines it, for one block. CPUs and kernels run this code.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/quantize/number_format.h"

namespace strata::kernels {

template <Element kElement>
inline constexpr unsigned kLargestExponent = facts_of(kElement).largest_exponent();

// The E8M0 code with scaling mx. `amax` is the fp32 bits of the largest magnitude. A NaN or an infinity gives 0xff.
template <Element kElement>
__host__ __device__ constexpr unsigned e8m0_of(unsigned amax) {
  const unsigned exponent = amax >> 23;
  if (exponent == 0xff) return 0xff;
  return exponent > kLargestExponent<kElement> ? exponent - kLargestExponent<kElement> : 0;
}

// The fp32 bits of 1 / scale, for a code that e8m0_of() can give; NaN for 0xff. It is a power of two, so that a product
// with it is the quotient by the scale.
__host__ __device__ constexpr unsigned inverse_of_e8m0(unsigned code) {
  return code == 0xff ? 0x7fffffffu : (254 - code) << 23;
}

}  // namespace strata::kernels
