// SPDX-License-Identifier: MIT
// Common shapes that ops are timed at.
#pragma once

#include <string_view>
#include <vector>

#include "kernels/proof/op_shape.h"

namespace strata::tools {

// Large shapes, of which it is known what the fastest implementations reach; for GPUs.
std::vector<kernels::OpShape> common_shapes();
// Small ones, for CPUs.
std::vector<kernels::OpShape> small_shapes();

// The key of `kernels:` that chooses the level of an op: rms_norm for add_rms_norm, activation for swiglu.
std::string_view kernels_key(std::string_view op);

}  // namespace strata::tools
