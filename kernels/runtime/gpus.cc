// SPDX-License-Identifier: MIT
#include "kernels/runtime/gpus.h"

#include <algorithm>
#include <atomic>

namespace strata::kernels {
namespace {

std::atomic<int> chosen_architecture = 0;

std::string capability_text(int capability) {
  return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
}

}  // namespace

void set_architecture(int capability) { chosen_architecture.store(capability, std::memory_order_relaxed); }

int chosen_capability(int capability) {
  const int chosen = chosen_architecture.load(std::memory_order_relaxed);
  return chosen == 0 ? capability : std::min(capability, chosen);
}

std::string to_text(const GpuRange& gpus) {
  if (gpus == kEveryGpu) return "every";
  if (gpus == kHopper) return capability_text(gpus.oldest) + " (H100, H200)";
  if (gpus.newest == kEveryGpu.newest) return capability_text(gpus.oldest) + " or later";
  return capability_text(gpus.oldest) + (gpus.newest == gpus.oldest ? "" : " to " + capability_text(gpus.newest));
}

std::string why_not_on_gpu(const GpuRange& gpus, const Gpu& gpu) {
  if (gpus.has(gpu.capability)) return "";
  return "runs on GPUs of compute capability " + to_text(gpus) + ", and this " + gpu.name + " has " +
         capability_text(gpu.capability);
}

}  // namespace strata::kernels
