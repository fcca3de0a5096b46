// SPDX-License-Identifier: MIT
#include "kernels/quantize/fp8_operand.h"

#include <ATen/core/grad_mode.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <c10/util/Exception.h>

#include "kernels/cuda/amax.h"
#include "kernels/cuda/launch.h"
#include "kernels/quantize/fp8_operand_cuda.h"

namespace strata::kernels {
namespace {

constexpr int64_t kAlignment = 16;  // bytes, which are as many codes

void check(const Tensor& x, Element element, const Tensor& amax) {
  TORCH_CHECK_VALUE(element == Element::e4m3 || element == Element::e5m2, "fp8_operand: element is ", name(element),
                    ", expected e4m3 or e5m2");
  const at::ScalarType type = x.scalar_type();
  TORCH_CHECK_VALUE(
      x.dim() == 2 && x.size(1) % kAlignment == 0 && (type == at::kFloat || type == at::kBFloat16 || type == at::kHalf),
      "fp8_operand: x is ", type, " ", x.sizes(), ", expected Float, BFloat16 or Half [R, C] with C a multiple of ",
      kAlignment);
  TORCH_CHECK_VALUE(
      !amax.defined() || (amax.scalar_type() == at::kInt && amax.is_contiguous() && amax.numel() == kAmaxPartials &&
                          amax.device() == x.device() &&
                          (amax.is_meta() || reinterpret_cast<uintptr_t>(amax.const_data_ptr()) % kAlignment == 0)),
      "fp8_operand: amax is ", amax.toString(), " ", amax.sizes(), ", expected int32 [", kAmaxPartials,
      "], contiguous, at a 16-byte boundary, on ", x.device());
  if (x.is_meta()) return;
  TORCH_CHECK_VALUE(x.is_cuda(), "fp8_operand: x is on ", x.device(), ", expected a Hopper GPU");
  const cudaDeviceProp& gpu = *at::cuda::getDeviceProperties(x.device().index());
  TORCH_CHECK_VALUE(gpu.major == 9, "fp8_operand: x is on ", gpu.name, " of compute capability ", gpu.major, ".",
                    gpu.minor, ", expected a Hopper GPU, which has 9.0");
}

// True if the elements of each row are contiguous, and all rows are at 16-byte boundaries.
bool has_vectors(const Tensor& x) {
  return x.stride(1) == 1 && x.stride(0) * x.element_size() % kAlignment == 0 &&
         reinterpret_cast<uintptr_t>(x.const_data_ptr()) % kAlignment == 0;
}

uint8_t* codes_or_null(const Tensor& codes) {
  return codes.defined() ? static_cast<uint8_t*>(codes.mutable_data_ptr()) : nullptr;
}

}  // namespace

Fp8Operand fp8_operand(const Tensor& given, Element element, OperandLayouts layouts, const Tensor& amax) {
  check(given, element, amax);
  const at::NoGradGuard no_grad;
  const Tensor x = has_vectors(given) ? given : given.clone(at::MemoryFormat::Contiguous);
  const int64_t rows = x.size(0), columns = x.size(1), padded_rows = (rows + kAlignment - 1) / kAlignment * kAlignment;
  const at::TensorOptions codes = x.options().dtype(element == Element::e4m3 ? at::kFloat8_e4m3fn : at::kFloat8_e5m2);
  Fp8Operand result;
  if (layouts != OperandLayouts::columns) result.rows = at::empty({rows, columns}, codes);
  if (layouts != OperandLayouts::rows) result.columns = at::empty({columns, padded_rows}, codes);
  if (x.numel() == 0) {
    result.scale = at::full({1}, kSmallestFp8Scale, x.options().dtype(at::kFloat));
    return result;
  }
  result.scale = at::empty({1}, x.options().dtype(at::kFloat));
  result.amax = amax.defined() ? amax : at::empty({kAmaxPartials}, x.options().dtype(at::kInt));
  const Fp8Cast cast = {.type = cuda_type("fp8_operand", "x", x),
                        .element = element,
                        .x = x.const_data_ptr(),
                        .rows = rows,
                        .columns = columns,
                        .row_stride = x.stride(0),
                        .padded_rows = padded_rows,
                        .row_codes = codes_or_null(result.rows),
                        .column_codes = codes_or_null(result.columns),
                        .amax = static_cast<unsigned*>(result.amax.mutable_data_ptr()),
                        .scale = static_cast<float*>(result.scale.mutable_data_ptr())};
  launch("fp8_operand", x, rows, columns, [&](cudaStream_t stream) {
    const cudaError_t status = amax.defined() ? cudaSuccess : launch_fp8_amax(cast, stream);
    return status == cudaSuccess ? launch_fp8_cast(cast, stream) : status;
  });
  return result;
}

}  // namespace strata::kernels
