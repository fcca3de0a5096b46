// SPDX-License-Identifier: MIT
// multiplies_in_fp8, multiplies_in_blocks: which linear layers multiply codes on a GPU, and which emulate their number
// format.
#pragma once

#include <cstdint>

#include "kernels/quantize/number_format.h"
#include "kernels/runtime/gpus.h"
#include "kernels/runtime/level.h"

namespace strata::kernels {

// True if op linear at `level` multiplies codes on the GPUs that can. At other levels every format is emulated.
constexpr bool multiplies_codes(Level level) { return level == Level::cuda; }

// True if quantized_linear() computes the layer by fp8_linear(): at a level that multiplies codes, in e4m3, with
// gradients in e4m3 or e5m2, one scale for each tensor or for each row, and inputs and outputs that are multiples of
// 16, for 16-byte loads of the codes.
constexpr bool multiplies_in_fp8(const ProductFormats& formats, Level level, int64_t inputs, int64_t outputs) {
  const auto& [values, gradients] = formats;
  return multiplies_codes(level) && values.element == Element::e4m3 &&
         (gradients.element == Element::e4m3 || gradients.element == Element::e5m2) &&
         (values.scaling == Scaling::tensor || values.scaling == Scaling::row) && gradients.scaling == values.scaling &&
         inputs % 16 == 0 && outputs % 16 == 0;
}

// The same with scales of blocks, which the tensor cores of kBlockScaled read: in MXFP8 of e4m3 or in NVFP4, with
// inputs and outputs that are multiples of 32. On other GPUs and on CPUs quantized_linear() emulates the layer.
inline constexpr GpuRange kBlockScaled = kBlackwell;
constexpr bool multiplies_in_blocks(const ProductFormats& formats, Level level, int64_t inputs, int64_t outputs) {
  constexpr QuantizedFormat kMxfp8 = {Element::e4m3, Scaling::mx}, kNvfp4 = {Element::e2m1, Scaling::nv};
  return multiplies_codes(level) && (formats.values == kMxfp8 || formats.values == kNvfp4) &&
         formats.gradients == formats.values && inputs % 32 == 0 && outputs % 32 == 0;
}

}  // namespace strata::kernels
