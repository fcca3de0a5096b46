// SPDX-License-Identifier: MIT
// Helpers for C++ code that launches CUDA kernels: the element type of a tensor, and errors that name the kernel and
// its shape.
#pragma once

#include <ATen/core/Tensor.h>
#include <cuda_runtime_api.h>

#include <string_view>

#include "kernels/cuda/cuda_type.h"
#include "kernels/runtime/call.h"

namespace strata::kernels {

inline CudaType cuda_type(std::string_view op, std::string_view argument, const at::Tensor& tensor) {
  const at::ScalarType type = tensor.scalar_type();
  require(type == at::kFloat || type == at::kBFloat16 || type == at::kHalf, op, Level::cuda, argument, " is ", type,
          ", expected Float, BFloat16 or Half");
  return type == at::kFloat ? CudaType::float32 : type == at::kHalf ? CudaType::float16 : CudaType::bfloat16;
}

inline void check_launch(cudaError_t status, std::string_view kernel, int64_t rows, int64_t width) {
  TORCH_CHECK(status == cudaSuccess, kernel, " on [", rows, ", ", width, "] failed: ", cudaGetErrorString(status));
}

}  // namespace strata::kernels
