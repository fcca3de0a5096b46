// SPDX-License-Identifier: MIT
// Mistakes in attention: in its formula, in the terms of its scores, which are ALiBi, softcap and sinks, and in the
// positions of queries that are a part of a row.
#pragma once

#include <vector>

#include "tests/kernels/mutants/mutants.h"

namespace strata::kernels {

std::vector<Mutant> attention_mutants();

}  // namespace strata::kernels
