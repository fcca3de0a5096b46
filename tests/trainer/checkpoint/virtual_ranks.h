// SPDX-License-Identifier: MIT
// Ranks that are threads of one process. A test runs one function on all of them, as mpirun does.
#pragma once

#include <functional>

#include "base/ranks.h"

namespace strata::trainer {

// Rethrows the exception of the first rank that failed. The other ranks are released from their gathers.
void run_ranks(int size, const std::function<void(const Ranks&)>& body);

}  // namespace strata::trainer
