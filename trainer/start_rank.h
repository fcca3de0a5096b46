// SPDX-License-Identifier: MIT
// What every program whose ranks compute together does first and last: threads, determinism, device; an exit code.
#pragma once

#include <functional>

#include "base/errors.h"
#include "sharding/bootstrap.h"
#include "trainer/config/load_config.h"

namespace strata::trainer {

// Collective. Throws (configuration) when the ranks differ in their number or their configurations, or cannot have the
// device that is wished for, or where an op has no kernel at its level on it. Prints where the run computes; from then
// on `loaded` says so too, also where it said auto.
void start_rank(LoadedConfig& loaded, sharding::Bootstrap& bootstrap);

// The exit code of `run`; what it throws is reported as the failure of this rank.
int exit_code_of(const std::function<ExitCode()>& run);

}  // namespace strata::trainer
