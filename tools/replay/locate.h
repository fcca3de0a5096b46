// SPDX-License-Identifier: MIT
// The search for the op at which an injected fault shows first.
#pragma once

#include "base/errors.h"
#include "tools/replay/replay.h"

namespace strata::tools {

// Runs the step twice from the same state: with the fault that the configuration injects, and without. Prints the first
// difference, and the first NaN. Returns done or numerics. Collective.
ExitCode locate_fault(const Replay& replay, const trainer::LoadedConfig& loaded);

}  // namespace strata::tools
