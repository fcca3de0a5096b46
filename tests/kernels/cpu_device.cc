// SPDX-License-Identifier: MIT
#include "tests/kernels/test_device.h"

namespace strata::kernels {

c10::DeviceType test_device() { return c10::kCPU; }

}  // namespace strata::kernels
