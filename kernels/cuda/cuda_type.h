// SPDX-License-Identifier: MIT
// The element types of hand-written CUDA kernels, as said across the border between LibTorch and `.cu` files.
#pragma once

namespace strata::kernels {

enum class CudaType { float32, bfloat16, float16 };

}  // namespace strata::kernels
