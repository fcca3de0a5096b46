// SPDX-License-Identifier: MIT
// Mistakes in the terms of attention's scores, which are ALiBi, softcap and sinks, and in the positions of queries that
// are a part of a row.
#pragma once

#include <vector>

#include "tests/kernels/mutants/mutants.h"

namespace strata::kernels {

std::vector<Mutant> term_mutants();
std::vector<Mutant> part_mutants();

}  // namespace strata::kernels
