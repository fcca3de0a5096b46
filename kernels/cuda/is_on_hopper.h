// SPDX-License-Identifier: MIT
// is_on_hopper: whether a tensor is where code for Hopper GPUs is chosen.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContextLight.h>

#include "kernels/runtime/gpus.h"

namespace strata::kernels {

// True for tensors on GPUs of compute capability 9.0, such as an H100, unless set_architecture() asks for other code.
inline bool is_on_hopper(const at::Tensor& tensor) {
  if (!tensor.is_cuda()) return false;
  const cudaDeviceProp& gpu = *at::cuda::getDeviceProperties(tensor.device().index());
  return kHopper.has(chosen_capability(10 * gpu.major + gpu.minor));
}

}  // namespace strata::kernels
