// SPDX-License-Identifier: MIT
// What replay does with a run: one function for each mode. Those that take a Replay are collective.
#pragma once

#include <string>
#include <vector>

#include "base/errors.h"
#include "tools/replay/replay.h"

namespace strata::tools {

// Trains up to the step again, compares it with the ledger of the run and prints the first difference. Returns done,
// data or numerics.
ExitCode compare_with_ledger(const Replay& replay, const trainer::LoadedConfig& loaded);

// Searches for the op at which an injected fault shows first: runs the step twice from the same state, with the fault
// that the configuration injects, and without. Prints the first difference, and the first NaN. Returns done or
// numerics.
ExitCode locate_fault(const Replay& replay, const trainer::LoadedConfig& loaded);

// Searches for the layer that made the first value of a step that is not finite, over all ranks: trains up to the step,
// finds the layer and saves it as RUN/nonfinite-step-N. Returns numerics if a value was not finite, and done if all
// were.
ExitCode save_nonfinite_layer(const Replay& replay, const trainer::LoadedConfig& loaded);

// Runs a saved layer alone, forward and backward, and prints each op, and the first one that makes a value that is not
// finite. Returns numerics if the layer makes one again, and done if it does not. Throws Error (storage) if the folder
// cannot be read.
ExitCode run_saved_layer(const std::string& folder, const std::vector<std::string>& overrides);

}  // namespace strata::tools
