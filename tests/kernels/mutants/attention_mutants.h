// SPDX-License-Identifier: MIT
// Mistakes in attention: its scale, its patterns and the heads that share keys.
#pragma once

#include <vector>

#include "tests/kernels/mutants/mutants.h"

namespace strata::kernels {

std::vector<Mutant> attention_mutants();

}  // namespace strata::kernels
