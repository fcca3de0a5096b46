// SPDX-License-Identifier: MIT
#include <cstdlib>

#include "tests/kernels/test_device.h"

namespace strata::kernels {
namespace {

// Without this variable, LibTorch refuses products in deterministic mode. The trainer sets it too.
[[maybe_unused]] const int kWorkspace = setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);

}  // namespace

c10::DeviceType test_device() { return c10::kCUDA; }

}  // namespace strata::kernels
