// SPDX-License-Identifier: MIT
// What devices can do at most per second.
#pragma once

#include <array>
#include <string_view>

namespace strata::trainer::profile {

// Zeros: not known.
struct Peaks {
  double bytes = 0;             // read and written, measured: copies of device memory
  double flops = 0;             // measured: large products of random matrices in bfloat16
  double advertised_flops = 0;  // dense bfloat16, the base of MFU
};

// By the name that CUDA has for the device: the PCIe and NVL boards of these GPUs have others, and are slower.
// Advertised: NVIDIA's data sheets of the SXM modules, without sparsity.
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
