// SPDX-License-Identifier: MIT
// The search for the layer that made the first value of a step that is not finite, over all ranks.
#pragma once

#include "base/errors.h"
#include "tools/replay/replay.h"

namespace strata::tools {

// Trains up to the step, finds the layer and saves it as RUN/nonfinite-step-N. Returns numerics if a value was not
// finite, and done if all were. Collective.
ExitCode save_nonfinite_layer(const Replay& replay, const trainer::LoadedConfig& loaded);

}  // namespace strata::tools
