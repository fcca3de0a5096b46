// SPDX-License-Identifier: MIT
// Sizes of a step that no device has: the sentence with which a prediction refuses them.
#pragma once

#include <cstdint>
#include <string>

#include "base/errors.h"
#include "trainer/config/trainer_config.h"

namespace strata::trainer {

// Returns the error of a run whose micro-batch is too large: the sizes that multiply, their product, and the key to
// lower. `reason` follows the word because.
Error too_large(const TrainerConfig& config, const std::string& reason);

// Returns the bytes of all micro-batches of a step: a * b, which are not negative. Throws an Error (configuration)
// above kernels::kMostTracedBytes.
int64_t bytes_of_batches(const TrainerConfig& config, int64_t a, int64_t b);

// Throws too_large() if linear_cross_entropy computes more chunks than a prediction follows in seconds.
void check_chunks(const TrainerConfig& config, bool on_gpu);

}  // namespace strata::trainer
