// SPDX-License-Identifier: MIT
// GPUs by compute capability, and which of them run some code.
#pragma once

#include <limits>
#include <string>

namespace strata::kernels {

// 90 means compute capability 9.0. `name` is CUDA's name.
struct Gpu {
  std::string name;
  int capability = 0;
};

// The GPUs whose compute capability is from `oldest` to `newest`.
struct GpuRange {
  int oldest = 0, newest = std::numeric_limits<int>::max();

  constexpr bool has(int capability) const { return oldest <= capability && capability <= newest; }
  bool operator==(const GpuRange&) const = default;
};

inline constexpr GpuRange kEveryGpu = {};  // on which a run may start
inline constexpr GpuRange kHopper = {.oldest = 90, .newest = 90};
inline constexpr GpuRange kBlackwell = {.oldest = 100};  // and newer ones
inline constexpr GpuRange kPortable = {.oldest = 80};    // for which the driver compiles PTX of compute_80

// From now on code is chosen for GPUs of this compute capability, although the GPU may be newer. 0: for the GPU itself.
void set_architecture(int capability);

// The compute capability for which code is chosen on a GPU of `capability`.
int chosen_capability(int capability);

// "9.0 (H100, H200)", "8.0 or later", "every".
std::string to_text(const GpuRange& gpus);

// Returns "" if `gpus` has the GPU, otherwise a text such as "runs on GPUs of compute capability 9.0 (H100, H200), and
// this NVIDIA L40S has 8.9".
std::string why_not_on_gpu(const GpuRange& gpus, const Gpu& gpu);

}  // namespace strata::kernels
