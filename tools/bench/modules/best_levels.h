// SPDX-License-Identifier: MIT
// Chooses the level of each op of a module as a plan chooses it for a model: `kernels.default: best`.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <functional>

#include "tools/bench/kernels/measurement.h"
#include "tools/plan/level_choice.h"

namespace strata::tools {

// Proves and times one op at some levels, as measure() does. A test has times of its own.
using MeasureLevels = std::function<decltype(measure)>;

// Calls `forward` once and proves and times each op that it calls, at the shapes of the calls and at each level that
// the device has.
LevelChoice best_levels(const std::function<void()>& forward, at::ScalarType dtype, at::Device device,
                        const MeasureLevels& measure_levels = measure);

}  // namespace strata::tools
