// SPDX-License-Identifier: MIT
// Whether each op of a run has a kernel at the level that was asked for, on the device of the run: known before
// anything is computed or written.
#pragma once

#include <c10/core/Device.h>

#include "trainer/config/load_config.h"

namespace strata::trainer {

// Throws configs::ConfigErrors with every line that asks for a level that is not there. A plan was applied before.
void check_levels(const LoadedConfig& loaded, c10::DeviceType device);

}  // namespace strata::trainer
