// SPDX-License-Identifier: MIT
// Level aten on CPUs: one pass over the rows. Operators of LibTorch would take fifteen over integers of 64 bits.
#pragma once

#include "kernels/dropout/dropout.h"

namespace strata::kernels {

DropoutOp::Forward dropout_by_loops;

}  // namespace strata::kernels
