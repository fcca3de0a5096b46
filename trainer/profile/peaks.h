// SPDX-License-Identifier: MIT
// The peak rates of devices, per second.
#pragma once

#include <array>
#include <string_view>

namespace strata::trainer::profile {

// 0 means unknown.
struct Peaks {
  double bytes = 0;             // bytes read and written, measured with copies of device memory
  double flops = 0;             // measured with large matrix products of random bfloat16
  double advertised_flops = 0;  // dense bfloat16, the denominator of MFU
};

// Finds the peaks by CUDA's name of the device. PCIe and NVL boards of these GPUs have other names, and are slower.
// Advertised FLOPs are from NVIDIA's data sheets of the SXM modules, without sparsity.
inline Peaks peaks_of(std::string_view device_name) {
  struct Known {
    std::string_view name;
    Peaks peaks;
  };
  constexpr std::array<Known, 2> kKnown = {{
      {"NVIDIA H100 80GB HBM3", {.bytes = 3.0e12, .flops = 798e12, .advertised_flops = 989e12}},  // 8192 x 8192 x 8192
      {"NVIDIA H200", {.bytes = 4.23e12, .flops = 783e12, .advertised_flops = 989e12}},           // 65536 x 3072 x 768
  }};
  for (const Known& known : kKnown) {
    if (known.name == device_name) return known.peaks;
  }
  return {};
}

}  // namespace strata::trainer::profile
