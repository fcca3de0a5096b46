// SPDX-License-Identifier: MIT
#include "kernels/runtime/gpu_architecture.h"

#include "kernels/runtime/level.h"

namespace strata::kernels {

// The code is that of sm_90a, which runs on this compute capability and on no other.
std::string why_not_on_gpu(std::string_view level, std::string_view gpu, int major, int minor) {
  if (level == name(Level::aten) || level == name(Level::torchscript) || (major == 9 && minor == 0)) return "";
  return "level " + std::string(level) + " is compiled for GPUs of compute capability 9.0 (H100, H200), and this " +
         std::string(gpu) + " has " + std::to_string(major) + "." + std::to_string(minor) +
         "; choose level aten or torchscript";
}

}  // namespace strata::kernels
