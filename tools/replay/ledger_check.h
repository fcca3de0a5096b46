// SPDX-License-Identifier: MIT
// The comparison of a replay with the ledger of the run.
#pragma once

#include "base/errors.h"
#include "tools/replay/replay.h"

namespace strata::tools {

// Trains up to the step again and prints the first difference. Returns done, data or numerics. Collective.
ExitCode compare_with_ledger(const Replay& replay, const trainer::LoadedConfig& loaded);

}  // namespace strata::tools
