// SPDX-License-Identifier: MIT
// One level for all ops of a training step, and the proof that it computes the same step as level aten.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <map>
#include <string>
#include <vector>

#include "kernels/runtime/level.h"
#include "modules/config/kernels_config.h"
#include "modules/config/module.h"
#include "trainer/config/load_config.h"
#include "trainer/step/step_results.h"

namespace strata::tools {

// Replaces `kernels:` of the configuration: every op of the model runs at `level`, and an op that lacks it on `device`
// runs at aten. Throws an Error (configuration) with the reason if all ops lack it.
void set_level(trainer::LoadedConfig& loaded, kernels::Level level, at::Device device);

// Returns the level of each op that the model computes, by its key in `kernels:`; the level of its last module if they
// differ.
std::map<std::string, std::string> levels_of_ops(const modules::KernelsConfig& kernels,
                                                 const std::vector<modules::DeclaredModule>& modules);

// The results of the first step, and the times of later steps, at level aten.
struct StepOfAten {
  double loss = 0, gradient_norm = 0, milliseconds = 0;
};

// Reads the first line of a file that `bench step --level aten --json` wrote. Throws an Error (configuration) if it is
// no such line, or if loss or gradient norm are not finite, which JSON has no number for.
StepOfAten read_step_of_aten(const std::string& path);

// Returns the relative difference of a loss or a gradient norm that is allowed if the step computes in `dtype`.
double allowed_difference(at::ScalarType dtype);

// Throws an Error (numerics) if loss or gradient norm of the first step differ from level aten by more than
// allowed_difference, or if one of them is not finite.
void require_the_same_step(const trainer::StepResult& first, const StepOfAten& aten, at::ScalarType dtype);

}  // namespace strata::tools
