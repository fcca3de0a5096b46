// SPDX-License-Identifier: MIT
// dropout_by_loops: level aten on CPUs, one pass over the rows. LibTorch's operators would need fifteen passes over
// 64-bit integers.
#pragma once

#include "kernels/dropout/dropout.h"

namespace strata::kernels {

DropoutOp::Forward dropout_by_loops;

}  // namespace strata::kernels
