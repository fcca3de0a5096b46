// SPDX-License-Identifier: MIT
// is_on, is_on_hopper: whether a tensor is where code for some GPUs is chosen.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContextLight.h>

#include "kernels/runtime/gpus.h"

namespace strata::kernels {

// True for tensors on one of `gpus`, unless set_architecture() asks for other code.
inline bool is_on(const GpuRange& gpus, const at::Tensor& tensor) {
  if (!tensor.is_cuda()) return false;
  const cudaDeviceProp& gpu = *at::cuda::getDeviceProperties(tensor.device().index());
  return gpus.has(chosen_capability(10 * gpu.major + gpu.minor));
}

// GPUs of compute capability 9.0, such as an H100.
inline bool is_on_hopper(const at::Tensor& tensor) { return is_on(kHopper, tensor); }

}  // namespace strata::kernels
