// SPDX-License-Identifier: MIT
// Runs a saved layer alone, forward and backward, and looks at each of its ops.
#pragma once

#include <string>
#include <vector>

#include "base/errors.h"

namespace strata::tools {

// Prints each op, and the first one that makes a value that is not finite. Returns numerics if the layer makes one
// again, and done if it does not. Throws Error (storage) if the folder cannot be read.
ExitCode run_saved_layer(const std::string& folder, const std::vector<std::string>& overrides);

}  // namespace strata::tools
