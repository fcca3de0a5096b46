// SPDX-License-Identifier: MIT
// CudaType: the element type of a tensor in calls from C++ code on LibTorch to launchers in `.cu` files.
#pragma once

namespace strata::kernels {

enum class CudaType { float32, bfloat16, float16 };

}  // namespace strata::kernels
