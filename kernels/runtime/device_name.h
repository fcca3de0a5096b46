// SPDX-License-Identifier: MIT
// Names that are stored with a measurement: the device, the version of LibTorch and the version of the kernels.
#pragma once

#include <c10/core/Device.h>

#include <string>

namespace strata::kernels {

// The name of the GPU or of the CPU model: "NVIDIA H200", "AMD EPYC 9654 96-Core Processor".
std::string device_name(c10::Device device);

// "2.11.0"
std::string torch_version();

// The first 16 hexadecimal digits of a SHA-256 over the sources of all ops and of kernels/{runtime,cuda,norms}. Times
// that were measured with other kernels are not used.
std::string kernel_version();

}  // namespace strata::kernels
