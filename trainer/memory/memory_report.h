// SPDX-License-Identifier: MIT
// The error of a run whose GPU refused memory.
#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <string>

#include "trainer/memory/device_memory.h"

namespace strata::trainer {

// Returns the text of the error. `request` is what LibTorch says of the memory that was refused.
using ReportMemory = std::function<std::string(const DeviceMemory& memory, const std::string& request)>;

// Calls `work`. If the GPU refuses memory in it, calls `report` and throws Error (out_of_memory) with its text. Other
// exceptions pass.
void report_refused_memory(c10::Device device, const ReportMemory& report, const std::function<void()>& work);

}  // namespace strata::trainer
