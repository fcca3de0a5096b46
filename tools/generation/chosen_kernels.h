// SPDX-License-Identifier: MIT
// The levels of generation that a user chooses.
#pragma once

#include <c10/core/TensorOptions.h>

#include <optional>
#include <string>

#include "modules/config/kernels_config.h"
#include "trainer/config/load_config.h"

namespace strata::generation {

// `choice` is auto, a level, or best: the levels of the plan that kernels.plan of the run names. Returns nothing for
// auto, with which the Decoder chooses. `options` has the device and the type of weights.
//
// Throws an Error (configuration) if an op of the model lacks the level on the device, if the level does not take its
// attention, or if there is no plan for the run. The message has the op, the level, the reason, and what runs instead.
std::optional<modules::KernelsConfig> chosen_kernels(const std::string& choice, const trainer::LoadedConfig& run,
                                                     const at::TensorOptions& options);

}  // namespace strata::generation
