// SPDX-License-Identifier: MIT
// The LibTorch type of a configured one. Apart from trainer_config.h, which is read before LibTorch is loaded.
#pragma once

#include <c10/core/ScalarType.h>

#include "trainer/config/trainer_config.h"

namespace strata::trainer {

inline at::ScalarType scalar_type(FloatType type) { return type == FloatType::bfloat16 ? at::kBFloat16 : at::kFloat; }

}  // namespace strata::trainer
