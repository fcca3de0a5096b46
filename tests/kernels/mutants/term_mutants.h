// SPDX-License-Identifier: MIT
// Mistakes in the terms of attention's scores: ALiBi, softcap and sinks.
#pragma once

#include <vector>

#include "tests/kernels/mutants/mutants.h"

namespace strata::kernels {

std::vector<Mutant> term_mutants();

}  // namespace strata::kernels
