// SPDX-License-Identifier: MIT
// The device on which levels are proved: the CPU in one test binary, the GPU in another. And which levels run there.
#pragma once

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/Device.h>

#include <vector>

#include "kernels/runtime/kernel_table.h"
#include "kernels/runtime/level.h"

namespace strata::kernels {

c10::DeviceType test_device();

// Returns why tests of a level cannot run on this machine, and null if they can.
inline const char* why_not_run(Level level) {
  if (test_device() == c10::kCUDA && !at::hasCUDA()) return "not run: there is no GPU";
  if (test_device() == c10::kCPU && level == Level::aot_inductor && !__builtin_cpu_supports("avx2")) {
    return "not run: packages for CPUs need AVX2, which this processor lacks";
  }
  return nullptr;
}

// Returns the levels that exist on the test's device.
inline std::vector<Level> levels_here() {
  std::vector<Level> levels;
  for (size_t i = 0; i < kLevelNames.size(); ++i) {
    if (runs_on(Level(i), test_device())) levels.push_back(Level(i));
  }
  return levels;
}

// Returns a copy of the values, one element after an aligned address.
inline at::Tensor unaligned(const at::Tensor& tensor) {
  const at::Tensor memory = at::empty({tensor.numel() + 1}, tensor.options());
  return memory.narrow(0, 1, tensor.numel()).view(tensor.sizes()).copy_(tensor);
}

}  // namespace strata::kernels
