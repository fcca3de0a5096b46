// SPDX-License-Identifier: MIT
#include "kernels/quantize/fp8_operand.h"

#include <ATen/core/grad_mode.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include "kernels/cuda/amax.h"
#include "kernels/cuda/launch.h"
#include "kernels/quantize/fp8_operand_cuda.h"
#include "kernels/quantize/operand_matrix.h"

namespace strata::kernels {
namespace {

// The number of magnitudes in Fp8Operand::amax.
int64_t amax_size(const Tensor& x, Scaling scaling) {
  return scaling == Scaling::row ? x.size(0) + x.size(1) : kAmaxPartials;
}

void check(const Tensor& x, QuantizedFormat format, const Tensor& amax, const DelayedScale& delayed) {
  const auto& [element, scaling] = format;
  TORCH_CHECK_VALUE(element == Element::e4m3 || element == Element::e5m2, "fp8_operand: element is ", name(element),
                    ", expected e4m3 or e5m2");
  TORCH_CHECK_VALUE(scaling == Scaling::tensor || scaling == Scaling::row, "fp8_operand: scaling is ", name(scaling),
                    ", expected tensor or row");
  const at::ScalarType type = x.scalar_type();
  TORCH_CHECK_VALUE(x.dim() == 2 && x.size(1) % kOperandAlignment == 0 && is_operand_type(type), "fp8_operand: x is ",
                    type, " ", x.sizes(), ", expected Float, BFloat16 or Half [R, C] with C a multiple of ",
                    kOperandAlignment);
  const int64_t magnitudes = amax_size(x, scaling);
  TORCH_CHECK_VALUE(!amax.defined() || (amax.scalar_type() == at::kInt && amax.is_contiguous() &&
                                        amax.numel() == magnitudes && amax.device() == x.device() &&
                                        (amax.is_meta() ||
                                         reinterpret_cast<uintptr_t>(amax.const_data_ptr()) % kOperandAlignment == 0)),
                    "fp8_operand: amax is ", amax.toString(), " ", amax.sizes(), ", expected int32 [", magnitudes,
                    "], contiguous, at a 16-byte boundary, on ", x.device());
  check_delayed("fp8_operand", x, scaling, delayed);
  if (x.is_meta()) return;
  TORCH_CHECK_VALUE(x.is_cuda(), "fp8_operand: x is on ", x.device(), ", expected a Hopper GPU");
  const cudaDeviceProp& gpu = *at::cuda::getDeviceProperties(x.device().index());
  TORCH_CHECK_VALUE(gpu.major == 9, "fp8_operand: x is on ", gpu.name, " of compute capability ", gpu.major, ".",
                    gpu.minor, ", expected a Hopper GPU, which has 9.0");
}

// Scales without values, or the scales of a matrix without elements.
void add_scales(Fp8Operand& operand, const Tensor& x, Scaling scaling) {
  const auto scales = [&](int64_t count) {
    const at::TensorOptions options = x.options().dtype(at::kFloat);
    return x.numel() == 0 ? at::full({count}, kSmallestFp8Scale, options) : at::empty({count}, options);
  };
  if (scaling == Scaling::tensor) {
    operand.rows_scale = operand.columns_scale = scales(1);
    return;
  }
  if (operand.rows.defined()) operand.rows_scale = scales(x.size(0));
  if (operand.columns.defined()) operand.columns_scale = scales(x.size(1));
}

// The kernel of scaling `row` makes magnitudes larger, so they start as zeros.
Tensor amax_of(const Tensor& x, Scaling scaling) {
  const at::TensorOptions options = x.options().dtype(at::kInt);
  const int64_t size = amax_size(x, scaling);
  return scaling == Scaling::row ? at::zeros({size}, options) : at::empty({size}, options);
}

cudaError_t launch_kernels(const Fp8Cast& cast, Scaling scaling, bool has_amax, cudaStream_t stream) {
  const bool by_row = scaling == Scaling::row;
  if (!has_amax) {
    const cudaError_t status = by_row ? launch_fp8_row_amax(cast, stream) : launch_fp8_amax(cast, stream);
    if (status != cudaSuccess) return status;
  }
  return by_row ? launch_fp8_row_cast(cast, stream)
                : launch_fp8_cast(cast, /*finds_amax=*/!has_amax && cast.present != nullptr, stream);
}

}  // namespace

Fp8Operand fp8_operand(const Tensor& given, QuantizedFormat format, OperandLayouts layouts, const Tensor& amax,
                       const DelayedScale& delayed) {
  check(given, format, amax, delayed);
  const auto& [element, scaling] = format;
  const at::NoGradGuard no_grad;
  const Tensor x = with_vectors(given);
  const int64_t rows = x.size(0), columns = x.size(1);
  const int64_t padded_rows = (rows + kOperandAlignment - 1) / kOperandAlignment * kOperandAlignment;
  const at::TensorOptions codes = x.options().dtype(element == Element::e4m3 ? at::kFloat8_e4m3fn : at::kFloat8_e5m2);
  Fp8Operand result;
  if (layouts != OperandLayouts::columns) result.rows = at::empty({rows, columns}, codes);
  if (layouts != OperandLayouts::rows) result.columns = at::empty({columns, padded_rows}, codes);
  add_scales(result, x, scaling);
  if (x.numel() == 0) return result;
  result.amax = amax.defined() ? amax : amax_of(x, scaling);
  const Fp8Cast cast = {.type = cuda_type("fp8_operand", "x", x),
                        .element = element,
                        .x = x.const_data_ptr(),
                        .rows = rows,
                        .columns = columns,
                        .row_stride = x.stride(0),
                        .padded_rows = padded_rows,
                        .row_codes = data_or_null<uint8_t>(result.rows),
                        .column_codes = data_or_null<uint8_t>(result.columns),
                        .amax = static_cast<unsigned*>(result.amax.mutable_data_ptr()),
                        .past = data_or_null<float>(delayed.past),
                        .present = data_or_null<unsigned>(delayed.present),
                        .rows_scale = data_or_null<float>(result.rows_scale),
                        .columns_scale = data_or_null<float>(result.columns_scale)};
  launch("fp8_operand", x, rows, columns,
         [&](cudaStream_t stream) { return launch_kernels(cast, format.scaling, amax.defined(), stream); });
  return result;
}

}  // namespace strata::kernels
