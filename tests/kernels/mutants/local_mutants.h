// SPDX-License-Identifier: MIT
// Mistakes in a part of a result: one row, one head, one tile, one leaf's gradient.
#pragma once

#include <vector>

#include "tests/kernels/mutants/mutants.h"

namespace strata::kernels {

std::vector<Mutant> local_mutants();

}  // namespace strata::kernels
