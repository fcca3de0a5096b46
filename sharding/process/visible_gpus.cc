// SPDX-License-Identifier: MIT
#include "sharding/process/visible_gpus.h"

#include <cuda_runtime_api.h>

#include <cstdio>

namespace strata::sharding {
namespace {

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    char digits[4];
    std::snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    text += (i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "") + std::string(digits);
  }
  return text;
}

std::string why_none(cudaError_t error) {
  int driver = 0, runtime = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) return "no NVIDIA driver is installed";
  cudaRuntimeGetVersion(&runtime);
  if (error == cudaErrorInsufficientDriver) {
    return "the NVIDIA driver knows CUDA " + version_text(driver) + ", and these binaries need " +
           version_text(runtime) + ": install a newer driver";
  }
  if (error == cudaErrorNoDevice) return "the NVIDIA driver finds no GPU, or CUDA_VISIBLE_DEVICES hides all of them";
  return std::string("the CUDA runtime says: ") + cudaGetErrorString(error);
}

}  // namespace

VisibleGpus visible_gpus() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    cudaGetLastError();  // clears the error; otherwise the next CUDA call would report it
    return {{}, why_none(error == cudaSuccess ? cudaErrorNoDevice : error)};
  }
  VisibleGpus visible;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    if (const cudaError_t failed = cudaGetDeviceProperties(&properties, i); failed != cudaSuccess) {
      cudaGetLastError();
      return {{}, "GPU " + std::to_string(i) + " cannot be asked what it is: " + cudaGetErrorString(failed)};
    }
    visible.gpus.push_back({uuid_text(properties.uuid), properties.name, 10 * properties.major + properties.minor,
                            static_cast<int64_t>(properties.totalGlobalMem)});
  }
  return visible;
}

}  // namespace strata::sharding
