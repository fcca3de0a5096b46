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

// Finds the peaks by CUDA's name of the device. PCIe and NVL boards of H100 and H200 have other names, and are slower.
// Advertised FLOPs are without sparsity. They are from NVIDIA's data sheets of H100, H200, A100, L40S and HGX B200, and
// from the Ada white paper for the RTX 4090, where sums are in fp32. Rates of boards that were not measured are 0.
inline Peaks peaks_of(std::string_view device_name) {
  struct Known {
    std::string_view name;
    Peaks peaks;
  };
  constexpr std::array<Known, 8> kKnown = {{
      {"NVIDIA H100 80GB HBM3", {.bytes = 3.0e12, .flops = 798e12, .advertised_flops = 989e12}},  // 8192 x 8192 x 8192
      {"NVIDIA H200", {.bytes = 4.23e12, .flops = 783e12, .advertised_flops = 989e12}},           // 65536 x 3072 x 768
      {"NVIDIA A100-SXM4-40GB", {.advertised_flops = 312e12}},
      {"NVIDIA A100-SXM4-80GB", {.advertised_flops = 312e12}},
      {"NVIDIA A100 80GB PCIe", {.advertised_flops = 312e12}},
      {"NVIDIA L40S", {.advertised_flops = 362.05e12}},
      {"NVIDIA GeForce RTX 4090", {.advertised_flops = 165.2e12}},
      {"NVIDIA B200", {.advertised_flops = 2250e12}},
  }};
  for (const Known& known : kKnown) {
    if (known.name == device_name) return known.peaks;
  }
  return {};
}

}  // namespace strata::trainer::profile
