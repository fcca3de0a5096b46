// SPDX-License-Identifier: MIT
#include "kernels/runtime/device_name.h"

#include <ATen/cuda/CUDAContext.h>
#include <torch/version.h>

#include <fstream>

#include "kernels/runtime/kernel_version.h"

namespace strata::kernels {

std::string device_name(c10::Device device) {
  if (device.is_cuda()) return at::cuda::getDeviceProperties(device.index())->name;
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown CPU";
}

std::string torch_version() { return TORCH_VERSION; }

std::string kernel_version() { return kKernelVersion; }

}  // namespace strata::kernels
