// SPDX-License-Identifier: MIT
// The start and the end of every program whose ranks compute together: threads, determinism, device, exit code.
#pragma once

#include <functional>

#include "base/errors.h"
#include "sharding/bootstrap.h"
#include "trainer/config/load_config.h"

namespace strata::trainer {

// Throws (configuration) if the ranks differ in number or configuration, if the requested device is missing, or if an
// op has no kernel at its level on the device. Prints the device and writes it into `loaded`, also for `auto`.
// Collective.
void start_rank(LoadedConfig& loaded, sharding::Bootstrap& bootstrap);

// Returns the exit code of `run`. An exception of `run` is reported as the failure of this rank.
int exit_code_of(const std::function<ExitCode()>& run);

}  // namespace strata::trainer
