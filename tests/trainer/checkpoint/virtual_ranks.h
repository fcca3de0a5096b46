// SPDX-License-Identifier: MIT
// Ranks that are threads of one process: a test runs one function on all of them, as mpirun would.
#pragma once

#include <functional>

#include "base/ranks.h"

namespace strata::trainer {

// Throws what the first rank threw that failed; the others are released from their gathers.
void run_ranks(int size, const std::function<void(const Ranks&)>& body);

}  // namespace strata::trainer
