// SPDX-License-Identifier: MIT
// The facts of a run that a promise reads, as JSON: sizes, memory, every op and collective of a step, and the versions
// on which times depend.
#pragma once

#include <c10/core/Device.h>

#include <nlohmann/json.hpp>

#include "trainer/config/trainer_config.h"
#include "trainer/prediction/step_calls.h"

namespace strata::tools {

// Names an op for measured times: op, shape, level, dtype, and whether the backward makes the gradient of its input.
nlohmann::ordered_json key_of(const trainer::OpCalls& calls);

// `calls` receives the calls of a step. `device` is on the machine on which it would run. The number of evaluation
// samples is null if it needs data that cannot be read here.
nlohmann::ordered_json promise_facts(const trainer::TrainerConfig& config, at::Device device,
                                     trainer::StepCalls& calls);

}  // namespace strata::tools
