// SPDX-License-Identifier: MIT
#include "kernels/runtime/gpu_architecture.h"

namespace strata::kernels {

// The code is that of sm_90a, which runs on this compute capability and on no other.
std::string why_not_on_gpu(Level level, std::string_view gpu, int major, int minor) {
  if (level == Level::aten || level == Level::torchscript || (major == 9 && minor == 0)) return "";
  return "level " + std::string(name(level)) +
         " is compiled for GPUs of compute capability 9.0 (H100, H200), and this " + std::string(gpu) + " has " +
         std::to_string(major) + "." + std::to_string(minor) + "; choose level aten or torchscript";
}

}  // namespace strata::kernels
