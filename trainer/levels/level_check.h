// SPDX-License-Identifier: MIT
// Whether each op of a run has a kernel at the level that was asked for, on the device of the run: known before
// anything is computed or written.
#pragma once

#include <c10/core/Device.h>

#include <vector>

#include "modules/config/module.h"
#include "trainer/config/load_config.h"

namespace strata::trainer {

// Throws configs::ConfigErrors with every line that asks for a level that is not there, or for a level of an op that no
// module which the line means computes. A plan was applied before.
// `modules` are those of declared_model(). A key of `kernels:` is the name of an op, and the other ops that it covers
// have the same levels. The GPU itself is looked at only if `device` has an index.
void check_levels(const LoadedConfig& loaded, const std::vector<modules::Module>& modules, c10::Device device);

}  // namespace strata::trainer
