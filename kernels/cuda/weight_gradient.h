// SPDX-License-Identifier: MIT
// WeightGradient: the tensor that receives the gradient of a weight, in calls to launchers in `.cu` files.
#pragma once

#include "kernels/cuda/cuda_type.h"

namespace strata::kernels {

// A kernel adds to `data` or overwrites it. A null pointer means that the gradient is not needed.
struct WeightGradient {
  void* data = nullptr;
  CudaType type = {};
  bool add = false;
};

}  // namespace strata::kernels
