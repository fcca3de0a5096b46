// SPDX-License-Identifier: MIT
// The names under which measurements are kept: of a device, of LibTorch, of the kernels themselves.
#pragma once

#include <c10/core/Device.h>

#include <string>

namespace strata::kernels {

// "NVIDIA H200", "AMD EPYC 9654 96-Core Processor"
std::string device_name(c10::Device device);

// "2.11.0"
std::string torch_version();

// SHA-256 over every source file of kernels/, the first 16 digits: other kernels, other times.
std::string kernel_version();

}  // namespace strata::kernels
