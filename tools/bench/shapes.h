// SPDX-License-Identifier: MIT
// Common shapes that ops are timed at.
#pragma once

#include <vector>

#include "kernels/proof/op_shape.h"

namespace strata::tools {

// Large shapes, of which it is known what the fastest implementations reach; for GPUs.
std::vector<kernels::OpShape> common_shapes();
// Small ones, for CPUs.
std::vector<kernels::OpShape> small_shapes();

}  // namespace strata::tools
