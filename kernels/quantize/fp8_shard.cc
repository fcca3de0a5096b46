// SPDX-License-Identifier: MIT
#include "kernels/quantize/fp8_shard.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "kernels/cuda/is_on_hopper.h"
#include "kernels/cuda/launch.h"
#include "kernels/quantize/element_values.h"
#include "kernels/quantize/fp8_operand_cuda.h"

namespace strata::kernels {
namespace {

constexpr Element kElement = Element::e4m3;

void check(const Tensor& x, const Tensor& scale, const Tensor& codes) {
  const at::ScalarType type = x.scalar_type();
  TORCH_CHECK_VALUE(
      x.dim() == 1 && x.is_contiguous() && (type == at::kFloat || type == at::kBFloat16 || type == at::kHalf),
      "write_weight_codes: x is ", type, " ", x.sizes(), ", expected Float, BFloat16 or Half [n], contiguous");
  TORCH_CHECK_VALUE(codes.sizes() == x.sizes() && codes.is_contiguous() && codes.scalar_type() == at::kByte &&
                        codes.device() == x.device(),
                    "write_weight_codes: codes are ", codes.scalar_type(), " ", codes.sizes(), " on ", codes.device(),
                    ", expected Byte ", x.sizes(), " on ", x.device());
  TORCH_CHECK_VALUE(
      scale.sizes() == at::IntArrayRef({1}) && scale.scalar_type() == at::kFloat && scale.device() == x.device(),
      "write_weight_codes: scale is ", scale.scalar_type(), " ", scale.sizes(), " on ", scale.device(),
      ", expected Float [1] on ", x.device());
}

void write_by_operators(const Tensor& x, const Tensor& scale, const Tensor& codes) {
  const int64_t most = x.is_cuda() ? 1 << 24 : 1 << 15, end = x.is_meta() ? std::min(most, x.numel()) : x.numel();
  for (int64_t begin = 0; begin < end; begin += most) {
    const int64_t count = std::min(most, end - begin);
    const Tensor quotient = x.narrow(0, begin, count).to(at::kFloat) / scale;
    codes.narrow(0, begin, count).copy_(codes_of(rounded_to_element(quotient, kElement), kElement));
  }
}

}  // namespace

Tensor scales_of_weights(const Tensor& amax) {
  const at::NoGradGuard no_grad;
  const Tensor finite = amax + (amax - amax);  // NaN instead of infinity
  // LibTorch multiplies tensors of GPUs by the inverse of a number, which rounds twice.
  return (finite / at::full({}, facts_of(kElement).largest, amax.options())).clamp_min_(kSmallestFp8Scale);
}

void write_weight_codes(const Tensor& x, const Tensor& scale, const Tensor& codes) {
  check(x, scale, codes);
  const at::NoGradGuard no_grad;
  if (x.numel() == 0) return;
  if (!is_on_hopper(x)) return write_by_operators(x, scale, codes);
  launch("weight_codes", x, 1, x.numel(), [&](cudaStream_t stream) {
    return launch_weight_codes(cuda_type("weight_codes", "x", x), x.const_data_ptr(), scale.const_data_ptr<float>(),
                               codes.mutable_data_ptr<uint8_t>(), x.numel(), stream);
  });
}

Fp8Operand fp8_operand_of_codes(const WeightCodes& weight, OperandLayouts layouts) {
  const auto& [codes, scale] = weight;
  TORCH_CHECK_VALUE(codes.is_meta() || is_on_hopper(codes), "fp8_operand_of_codes: the codes are on ", codes.device(),
                    ", expected a Hopper GPU");
  const at::NoGradGuard no_grad;
  const int64_t rows = codes.size(0), columns = codes.size(1);
  Fp8Operand result;
  result.rows_scale = result.columns_scale = scale;
  if (layouts != OperandLayouts::columns) result.rows = codes.view(at::kFloat8_e4m3fn);
  if (layouts == OperandLayouts::rows) return result;
  result.columns = at::empty({columns, rows}, codes.options().dtype(at::kFloat8_e4m3fn));
  launch("transpose_codes", codes, rows, columns, [&](cudaStream_t stream) {
    return launch_transpose_codes(codes.const_data_ptr<uint8_t>(),
                                  static_cast<uint8_t*>(result.columns.mutable_data_ptr()), rows, columns, stream);
  });
  return result;
}

}  // namespace strata::kernels
