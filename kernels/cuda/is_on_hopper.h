// SPDX-License-Identifier: MIT
// is_on_hopper: whether a tensor is where kernels for Hopper GPUs run.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContextLight.h>

namespace strata::kernels {

// True for tensors on GPUs of compute capability 9.0, such as an H100.
inline bool is_on_hopper(const at::Tensor& tensor) {
  return tensor.is_cuda() && at::cuda::getDeviceProperties(tensor.device().index())->major == 9;
}

}  // namespace strata::kernels
