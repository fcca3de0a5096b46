// SPDX-License-Identifier: MIT
// The device on which levels are proved: the CPU in one test binary, the GPU in another.
#pragma once

#include <c10/core/Device.h>

namespace strata::kernels {

c10::DeviceType test_device();

}  // namespace strata::kernels
