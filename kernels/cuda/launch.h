// SPDX-License-Identifier: MIT
// launch: the last step of every op at level cuda.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "kernels/cuda/launch_check.h"

namespace strata::kernels {

// Calls launcher(stream), which launches `kernel` on [rows, width] and returns its status, on the current stream of the
// device of `like`, and checks the status. Does nothing if `like` has no values, because the op is traced then.
template <class Launcher>
void launch(std::string_view kernel, const at::Tensor& like, int64_t rows, int64_t width, const Launcher& launcher) {
  if (like.is_meta()) return;
  const c10::cuda::CUDAGuard device(like.device());
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  check_launch(launcher(stream), kernel, rows, width);
}

}  // namespace strata::kernels
