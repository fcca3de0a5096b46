// SPDX-License-Identifier: MIT
#include "kernels/quantize/block_operand.h"

#include <ATen/core/grad_mode.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <c10/util/Exception.h>

#include "kernels/cuda/amax.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/scale_tiles.h"
#include "kernels/quantize/block_operand_cuda.h"
#include "kernels/quantize/operand_matrix.h"

namespace strata::kernels {
namespace {

void check(const Tensor& x, QuantizedFormat format, const Tensor& amax) {
  const auto& [element, scaling] = format;
  const bool is_nv = scaling == Scaling::nv && element == Element::e2m1;
  const bool is_mx = scaling == Scaling::mx && (element == Element::e4m3 || element == Element::e5m2);
  TORCH_CHECK_VALUE(is_mx || is_nv, "block_operand: scaling is ", name(scaling), " of element ", name(element),
                    ", expected mx of e4m3 or e5m2, or nv of e2m1");
  TORCH_CHECK_VALUE(x.dim() == 2 && x.size(1) % kBlockOperandUnit == 0 && is_operand_type(x.scalar_type()),
                    "block_operand: x is ", x.scalar_type(), " ", x.sizes(),
                    ", expected Float, BFloat16 or Half [R, C] with C a multiple of ", kBlockOperandUnit);
  TORCH_CHECK_VALUE(!amax.defined() || (is_nv && amax.scalar_type() == at::kInt && amax.is_contiguous() &&
                                        amax.numel() == kAmaxPartials && amax.device() == x.device()),
                    "block_operand: amax is ", amax.toString(), " ", amax.sizes(), " with scaling ", name(scaling),
                    ", expected int32 [", kAmaxPartials, "] on ", x.device(), " with scaling nv, and none with mx");
  if (x.is_meta()) return;
  TORCH_CHECK_VALUE(x.is_cuda(), "block_operand: x is on ", x.device(), ", expected a GPU");
  const cudaDeviceProp& gpu = *at::cuda::getDeviceProperties(x.device().index());
  TORCH_CHECK_VALUE(gpu.major >= 9, "block_operand: x is on ", gpu.name, " of compute capability ", gpu.major, ".",
                    gpu.minor, ", expected 9.0 or more");
}

at::ScalarType type_of(Element element) {
  return element == Element::e4m3   ? at::kFloat8_e4m3fn
         : element == Element::e5m2 ? at::kFloat8_e5m2
                                    : at::kFloat4_e2m1fn_x2;
}

// The operand without values. `padded_rows` is the length of the rows of the transpose.
Fp8Operand empty_operand(const Tensor& x, QuantizedFormat format, OperandLayouts layouts, int64_t padded_rows) {
  const auto& [element, scaling] = format;
  const int64_t rows = x.size(0), columns = x.size(1), block = block_size(scaling);
  const int64_t in_byte = scaling == Scaling::nv ? 2 : 1;
  const at::TensorOptions codes = x.options().dtype(type_of(element));
  const at::TensorOptions scales = x.options().dtype(scaling == Scaling::nv ? at::kFloat8_e4m3fn : at::kFloat8_e8m0fnu);
  Fp8Operand result;
  if (layouts != OperandLayouts::columns) {
    result.rows = at::empty({rows, columns / in_byte}, codes);
    result.rows_scale = at::empty({scale_tile_bytes(rows, columns / block)}, scales);
  }
  if (layouts != OperandLayouts::rows) {
    result.columns = at::empty({columns, padded_rows / in_byte}, codes);
    result.columns_scale = at::empty({scale_tile_bytes(columns, padded_rows / block)}, scales);
  }
  if (scaling == Scaling::nv) {
    const at::TensorOptions scale = x.options().dtype(at::kFloat);
    result.tensor_scale = x.numel() == 0 ? at::full({1}, kSmallestFp8Scale, scale) : at::empty({1}, scale);
  }
  return result;
}

}  // namespace

Fp8Operand block_operand(const Tensor& given, QuantizedFormat format, OperandLayouts layouts, const Tensor& amax) {
  check(given, format, amax);
  const at::NoGradGuard no_grad;
  const Tensor x = with_vectors(given);
  const int64_t rows = x.size(0), columns = x.size(1);
  const int64_t padded_rows = (rows + kBlockOperandUnit - 1) / kBlockOperandUnit * kBlockOperandUnit;
  const bool is_nv = format.scaling == Scaling::nv;
  Fp8Operand result = empty_operand(x, format, layouts, padded_rows);
  if (x.numel() == 0) return result;
  if (is_nv) result.amax = amax.defined() ? amax : at::empty({kAmaxPartials}, x.options().dtype(at::kInt));
  const Fp8Cast cast = {.type = cuda_type("block_operand", "x", x),
                        .element = format.element,
                        .x = x.const_data_ptr(),
                        .rows = rows,
                        .columns = columns,
                        .row_stride = x.stride(0),
                        .padded_rows = padded_rows,
                        .row_codes = data_or_null<uint8_t>(result.rows),
                        .column_codes = data_or_null<uint8_t>(result.columns),
                        .amax = data_or_null<unsigned>(result.amax),
                        .past = nullptr,
                        .present = nullptr,
                        .rows_scale = data_or_null<float>(result.tensor_scale),
                        .columns_scale = nullptr};
  const BlockScales scales = {data_or_null<uint8_t>(result.rows_scale), data_or_null<uint8_t>(result.columns_scale)};
  launch("block_operand", x, rows, columns, [&](cudaStream_t stream) {
    if (!is_nv) return launch_mx_cast(cast, scales, stream);
    const cudaError_t status = amax.defined() ? cudaSuccess : launch_fp8_amax(cast, stream);
    return status == cudaSuccess ? launch_nv_cast(cast, scales, stream) : status;
  });
  return result;
}

}  // namespace strata::kernels
