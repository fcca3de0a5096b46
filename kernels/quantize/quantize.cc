// SPDX-License-Identifier: MIT
#include "kernels/quantize/quantize.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <limits>
#include <tuple>

#include "kernels/quantize/element_values.h"
#include "kernels/quantize/operand_matrix.h"
#include "kernels/runtime/element_hash.h"

namespace strata::kernels {
namespace {

constexpr Element kScaleElement = Element::e4m3;  // element of the scales of blocks with scaling nv
// The smallest value of e4m3, and a scale whose product with it is not subnormal in fp32.
constexpr double kSmallestBlockScale = 0x1p-9, kSmallestScale = 0x1p-117;
constexpr int64_t kNanE8m0 = 0xff;
// Site of stochastic rounding in element_hash, far from the small numbers of dropout.
constexpr int64_t kSite = 0x7175616e;

// The elements that share a scale are along the last dimension: [rows, blocks, elements], or [1, 1, elements].
Tensor in_blocks(const Tensor& x, Scaling scaling) {
  if (scaling == Scaling::tensor) return x.view({1, 1, x.numel()});
  const int64_t size = block_size(scaling) == 0 ? x.size(1) : block_size(scaling);
  return x.view({x.size(0), scaling == Scaling::row ? 1 : x.size(1) / size, size});
}

// fp32 numbers of codes of E8M0.
Tensor values_of_e8m0(const Tensor& codes) {
  const Tensor exponent = codes.to(at::kInt);
  const Tensor values = exponent.bitwise_left_shift(23).view(at::kFloat);
  values.masked_fill_(exponent.eq(0), 0x1p-127);  // subnormal in fp32
  return values.masked_fill_(exponent.eq(kNanE8m0), std::numeric_limits<float>::quiet_NaN());
}

// Divides by a tensor: LibTorch multiplies tensors of GPUs by the inverse of a number, which rounds twice.
Tensor divided(const Tensor& x, double divisor) { return x / at::full({}, divisor, x.options()); }

// Scales as they are stored, and `each`, the fp32 factor of each block: [rows, blocks, 1].
struct Scales {
  Tensor stored, tensor_scale, each;
};

Tensor each_scale(const Tensor& stored, const Tensor& tensor_scale, Scaling scaling) {
  const Tensor scales = stored.unsqueeze(-1);
  if (scaling == Scaling::mx) return values_of_e8m0(scales);
  if (scaling == Scaling::nv) return values_of(scales, kScaleElement).mul_(tensor_scale);
  return scales;
}

// Records the amax of a tensor, [1, 1], and returns the one that its scale follows from.
Tensor delayed_amax(const Tensor& amax, const DelayedScale& delayed) {
  if (delayed.present.defined()) delayed.present.copy_(at::maximum(delayed.present, amax.view({1})));
  return at::where(delayed.past.gt(0), delayed.past, amax);
}

// `blocks` are fp32 and have at least one element.
Scales scales_of(const Tensor& blocks, QuantizedFormat format, const DelayedScale& delayed) {
  const ElementFacts facts = facts_of(format.element);
  Tensor amax = blocks.abs().amax(-1);
  if (delayed.past.defined()) amax = delayed_amax(amax, delayed);
  const Tensor finite = amax + (amax - amax);  // NaN instead of infinity
  Scales scales;
  if (format.scaling == Scaling::mx) {
    const Tensor exponent = amax.view(at::kInt).bitwise_right_shift(23);
    const Tensor codes = (exponent - facts.largest_exponent()).clamp_min_(0);
    scales.stored = codes.masked_fill_(exponent.eq(0xff), kNanE8m0).to(at::kByte);
  } else if (format.scaling == Scaling::nv) {
    const double largest = facts.largest, largest_scale = facts_of(kScaleElement).largest;
    scales.tensor_scale = divided(finite.amax(), largest * largest_scale).clamp_min_(kSmallestScale);
    const Tensor wanted = divided(finite, largest).div_(scales.tensor_scale).clamp_min_(kSmallestBlockScale);
    scales.stored = codes_of(rounded_to_element(wanted, kScaleElement), kScaleElement);
  } else {
    scales.stored = divided(finite, facts.largest).clamp_min_(kSmallestScale);
  }
  scales.each = each_scale(scales.stored, scales.tensor_scale, format.scaling);
  return scales;
}

// x as values of the element, fp32 in blocks, and their scales.
struct Rounded {
  Tensor values;
  Scales scales;
};

Rounded rounded(const Tensor& x, QuantizedFormat format, Rounding rounding, const Tensor& key,
                const DelayedScale& delayed) {
  Tensor blocks = in_blocks(x.to(at::kFloat).contiguous(), format.scaling);
  Tensor hash;
  if (rounding == Rounding::stochastic) {
    hash = element_hash(key.view({1}), kSite, /*first_row=*/0, x.size(0), x.size(1)).view(blocks.sizes());
  }
  Rounded result;
  result.scales = scales_of(blocks, format, delayed);
  // An infinity makes the scale of the tensor itself NaN. With another scale it would saturate.
  if (delayed.past.defined()) blocks = at::where(blocks.isinf(), std::numeric_limits<float>::quiet_NaN(), blocks);
  result.values = rounded_to_element(blocks / result.scales.each, format.element, hash);
  return result;
}

void check_format(QuantizedFormat format, int64_t width) {
  TORCH_CHECK_VALUE(!name(format).empty(), "quantize: scaling ", name(format.scaling), " of element ",
                    name(format.element), ", expected a combination of kNamedFormats");
  const int64_t size = block_size(format.scaling);
  TORCH_CHECK_VALUE(size == 0 || width % size == 0, "quantize: rows are ", width, " wide, expected a multiple of ",
                    size, ", the block of scaling ", name(format.scaling));
}

void check(const Tensor& x, QuantizedFormat format, Rounding rounding, const Tensor& key, const DelayedScale& delayed) {
  TORCH_CHECK_VALUE(x.dim() == 2 && is_operand_type(x.scalar_type()), "quantize: x is ", x.scalar_type(), " ",
                    x.sizes(), ", expected Float, BFloat16 or Half [rows, width]");
  check_format(format, x.size(1));
  check_delayed("quantize", x, format.scaling, delayed);
  if (rounding == Rounding::nearest_even) {
    TORCH_CHECK_VALUE(!key.defined(), "quantize: a key for rounding to nearest even, expected an undefined tensor");
    return;
  }
  TORCH_CHECK_VALUE(key.defined(), "quantize: no key for stochastic rounding, expected Long [1] on ", x.device());
  TORCH_CHECK_VALUE(key.scalar_type() == at::kLong && key.numel() == 1 && key.device() == x.device(),
                    "quantize: key is ", key.scalar_type(), " ", key.sizes(), " on ", key.device(),
                    ", expected Long [1] on ", x.device());
}

// Sizes and dtype of the scales of a tensor [rows, width].
std::tuple<int64_t, int64_t, at::ScalarType> stored_scales(int64_t rows, int64_t width, Scaling scaling) {
  const int64_t size = block_size(scaling);
  const at::ScalarType type = scaling == Scaling::mx || scaling == Scaling::nv ? at::kByte : at::kFloat;
  return {scaling == Scaling::tensor ? 1 : rows, size == 0 ? 1 : width / size, type};
}

void check_tensor_scale(const Tensor& scale, Scaling scaling) {
  if (scaling == Scaling::nv) {
    TORCH_CHECK_VALUE(scale.defined(), "dequantize: tensor_scale is undefined, expected a Float scalar for scaling nv");
    TORCH_CHECK_VALUE(scale.dim() == 0 && scale.scalar_type() == at::kFloat, "dequantize: tensor_scale is ",
                      scale.scalar_type(), " ", scale.sizes(), ", expected a Float scalar for scaling nv");
    return;
  }
  TORCH_CHECK_VALUE(!scale.defined(), "dequantize: tensor_scale is ", scale.scalar_type(), " ", scale.sizes(),
                    ", expected an undefined tensor for scaling ", name(scaling));
}

void check(const Quantized& quantized, QuantizedFormat format, at::ScalarType type) {
  const Tensor &codes = quantized.codes, &scales = quantized.scales;
  TORCH_CHECK_VALUE(codes.dim() == 2 && codes.scalar_type() == at::kByte, "dequantize: codes are ", codes.scalar_type(),
                    " ", codes.sizes(), ", expected Byte [rows, width]");
  check_format(format, codes.size(1));
  const auto [rows, blocks, scale_type] = stored_scales(codes.size(0), codes.size(1), format.scaling);
  TORCH_CHECK_VALUE(scales.sizes() == at::IntArrayRef({rows, blocks}) && scales.scalar_type() == scale_type,
                    "dequantize: scales are ", scales.scalar_type(), " ", scales.sizes(), ", expected ", scale_type,
                    " [", rows, ", ", blocks, "] for scaling ", name(format.scaling));
  check_tensor_scale(quantized.tensor_scale, format.scaling);
  TORCH_CHECK_VALUE(is_operand_type(type), "dequantize: type is ", type, ", expected Float, BFloat16 or Half");
}

// Returns the result for a tensor without elements.
Quantized nothing(const Tensor& x, Scaling scaling) {
  const auto [rows, blocks, type] = stored_scales(x.size(0), x.size(1), scaling);
  Quantized result = {at::zeros(x.sizes(), x.options().dtype(at::kByte)), {}, {}};
  // Only scalings tensor and row have scales without elements.
  result.scales = at::full({rows, blocks}, type == at::kFloat ? kSmallestScale : 0, x.options().dtype(type));
  if (scaling == Scaling::nv) result.tensor_scale = at::full({}, kSmallestScale, x.options().dtype(at::kFloat));
  return result;
}

}  // namespace

Quantized quantize(const Tensor& x, QuantizedFormat format, Rounding rounding, const Tensor& key,
                   const DelayedScale& delayed) {
  check(x, format, rounding, key, delayed);
  const at::NoGradGuard no_grad;
  if (x.numel() == 0) return nothing(x, format.scaling);
  const auto [values, scales] = rounded(x, format, rounding, key, delayed);
  return {codes_of(values, format.element).view(x.sizes()), scales.stored, scales.tensor_scale};
}

Tensor dequantize(const Quantized& quantized, QuantizedFormat format, at::ScalarType type) {
  check(quantized, format, type);
  const at::NoGradGuard no_grad;
  const Tensor& codes = quantized.codes;
  if (codes.numel() == 0) return at::zeros(codes.sizes(), codes.options().dtype(type));
  const Tensor values = in_blocks(values_of(codes.contiguous(), format.element), format.scaling);
  const Tensor each = each_scale(quantized.scales, quantized.tensor_scale, format.scaling);
  return (values * each).view(codes.sizes()).to(type);
}

Tensor rounded_to(const Tensor& x, QuantizedFormat format, Rounding rounding, const Tensor& key,
                  const DelayedScale& delayed) {
  check(x, format, rounding, key, delayed);
  const at::NoGradGuard no_grad;
  if (x.numel() == 0) return at::zeros(x.sizes(), x.options());
  const auto [values, scales] = rounded(x, format, rounding, key, delayed);
  return (values * scales.each).view(x.sizes()).to(x.scalar_type());
}

}  // namespace strata::kernels
