// SPDX-License-Identifier: MIT
// The peak rates of devices, per second: measured on the boards that Strata ran on, and advertised.
#pragma once

#include <array>
#include <string_view>

namespace strata::trainer::profile {

// 0 means unknown.
struct Rates {
  double bytes = 0;  // read and written in the memory of the device
  double flops = 0;  // of products of 16 bits, without sparsity
};

struct Peaks {
  Rates measured = {};    // bytes by copies of device memory, FLOPs by large products of random bfloat16
  Rates advertised = {};  // by a data sheet; its FLOPs are the denominator of MFU

  bool is_measured() const { return measured.bytes > 0 && measured.flops > 0; }
  // The rates of the roofline. Advertised ones are higher than what a device reaches, so shares of them are lower.
  const Rates& roofline() const { return is_measured() ? measured : advertised; }
  // What the rates of the roofline are: "measured", "advertised", or "" if they are unknown.
  std::string_view source() const {
    if (is_measured()) return "measured";
    return advertised.flops > 0 ? "advertised" : "";
  }
};

// Finds the peaks by CUDA's name of the device. Boards of one chip have names and rates of their own. A part of a GPU
// (MIG) has another name, and none of these rates.
//
// Advertised FLOPs are dense products of bfloat16 with sums in float32; of float16 on the GPUs of compute capability
// 7.5, which have no bfloat16. Where a document has only FLOPs with sparsity, half of them are taken. Bytes are the
// bandwidth of the memory. The numbers are from these documents of NVIDIA:
// - data sheets of T4, A10, A100, L4, L40S, H100 (SXM, PCIe and NVL), H200 (SXM and NVL), GH200, HGX B200 and HGX B300,
//   of which a GPU has an eighth
// - white papers of the architectures Turing (RTX 2080), GA102 (RTX 3090, RTX A6000), Ada (RTX 4090) and RTX Blackwell
//   (RTX 5090)
// NVIDIA has no public data sheet of the H20. Its numbers are from makers of servers.
inline Peaks peaks_of(std::string_view device_name) {
  struct Known {
    std::string_view name;
    Peaks peaks;
  };
  constexpr Rates kA100At40Gb = {1555e9, 312e12}, kB200 = {8e12, 2250e12};
  constexpr std::array<Known, 22> kKnown = {{
      {"Tesla T4", {.advertised = {300e9, 65e12}}},
      {"NVIDIA GeForce RTX 2080", {.advertised = {448e9, 40.3e12}}},
      {"NVIDIA A100-SXM4-40GB", {.advertised = kA100At40Gb}},
      {"NVIDIA A100-PCIE-40GB", {.advertised = kA100At40Gb}},
      {"NVIDIA A100-SXM4-80GB", {.advertised = {2039e9, 312e12}}},
      {"NVIDIA A100 80GB PCIe", {.advertised = {1935e9, 312e12}}},
      {"NVIDIA A10", {.advertised = {600e9, 125e12}}},
      {"NVIDIA GeForce RTX 3090", {.advertised = {936e9, 71e12}}},
      {"NVIDIA RTX A6000", {.advertised = {768e9, 154.8e12}}},
      {"NVIDIA L4", {.advertised = {300e9, 121e12}}},
      {"NVIDIA L40S", {.advertised = {864e9, 362.05e12}}},
      {"NVIDIA GeForce RTX 4090", {.advertised = {1008e9, 165.2e12}}},
      // Measured with products of 8192 x 8192 x 8192.
      {"NVIDIA H100 80GB HBM3", {.measured = {3.0e12, 798e12}, .advertised = {3350e9, 989e12}}},
      {"NVIDIA H100 PCIe", {.advertised = {2000e9, 756e12}}},
      {"NVIDIA H100 NVL", {.advertised = {3900e9, 835e12}}},
      // Measured with products of 65536 x 3072 x 768.
      {"NVIDIA H200", {.measured = {4.23e12, 783e12}, .advertised = {4800e9, 989e12}}},
      {"NVIDIA H200 NVL", {.advertised = {4800e9, 835e12}}},
      {"NVIDIA GH200 480GB", {.advertised = {4000e9, 989e12}}},
      {"NVIDIA H20", {.advertised = {4000e9, 148e12}}},
      {"NVIDIA B200", {.advertised = kB200}},
      {"NVIDIA B300 SXM6 AC", {.advertised = kB200}},
      {"NVIDIA GeForce RTX 5090", {.advertised = {1792e9, 209.5e12}}},
  }};
  for (const Known& known : kKnown) {
    if (known.name == device_name) return known.peaks;
  }
  return {};
}

}  // namespace strata::trainer::profile
