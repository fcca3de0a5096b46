// SPDX-License-Identifier: MIT
// Checks cached_attention, step by step, against op attention over whole rows in fp64 on the CPU.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

namespace strata::kernels {

// Fails the test of GoogleTest that runs for each element that differs from the definition by more than `tolerance` *
// (1 + its value). Inputs are rounded to `type` first.
void check_cached_steps(at::Device device, at::ScalarType type, double tolerance);

}  // namespace strata::kernels
