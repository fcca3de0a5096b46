// SPDX-License-Identifier: MIT
// The number formats as their standards define them, in plain loops that share nothing with kernels/quantize. The
// values of all codes are enumerated, and the nearest is found in exact arithmetic of double. A mutation is a wrong
// variant.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/quantize/number_format.h"

namespace strata::kernels {

enum class Mutation {
  none,
  ties_away,             // from 0
  truncated,             // to the value nearer to 0
  subnormals_flushed,    // elements without the implicit 1 become 0
  bias_one_more,         // the bias of the element's exponent is one more
  no_saturation,         // the code after the one of the largest value
  exponent_up,           // mx: ceil(log2(amax)) instead of floor
  scale_bias_one_more,   // mx: of E8M0
  smaller_blocks,        // block, mx, nv: half of a block shares a scale
  infinity_is_largest,   // the largest scale for a block with an infinity
  scale_truncated,       // nv: of the block
  tensor_scale_of_e2m1,  // nv: amax / 6 instead of amax / (6 * 448)
};

inline constexpr std::array<std::string_view, 12> kMutationNames = {
    "none",           "ties_away",           "truncated",       "subnormals_flushed",
    "bias_one_more",  "no_saturation",       "exponent_up",     "scale_bias_one_more",
    "smaller_blocks", "infinity_is_largest", "scale_truncated", "tensor_scale_of_e2m1"};

constexpr std::string_view name(Mutation mutation) { return kMutationNames[static_cast<size_t>(mutation)]; }

// True if a quantizer of this format can have the mistake.
bool applies(Mutation mutation, QuantizedFormat format);

// Returns the values of all codes of an element, with infinities and NaN.
std::vector<double> all_values(Element element, Mutation mutation = Mutation::none);

// Returns the code of the value nearest to x.
uint8_t nearest_code(double x, Element element, Mutation mutation = Mutation::none);

struct StandardQuantized {
  std::vector<uint8_t> codes;
  std::vector<float> scales;  // as they are stored: numbers or codes
  float tensor_scale = 0;
  std::vector<float> decoded;
};

StandardQuantized standard_quantized(const std::vector<float>& x, int64_t rows, QuantizedFormat format,
                                     Mutation mutation = Mutation::none);

}  // namespace strata::kernels
