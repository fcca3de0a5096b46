// SPDX-License-Identifier: MIT
// Common shapes at which ops are timed.
#pragma once

#include <vector>

#include "kernels/proof/op_shape.h"

namespace strata::tools {

// Large shapes for GPUs, for which the speed of the fastest implementations is known.
std::vector<kernels::OpShape> common_shapes();
// Small shapes for CPUs.
std::vector<kernels::OpShape> small_shapes();

}  // namespace strata::tools
