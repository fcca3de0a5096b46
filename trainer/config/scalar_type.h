// SPDX-License-Identifier: MIT
// Maps a configured type to the one of LibTorch. It is not in precision_config.h, because that header must do without
// LibTorch.
#pragma once

#include <c10/core/ScalarType.h>

#include "trainer/config/precision_config.h"

namespace strata::trainer {

inline at::ScalarType scalar_type(FloatType type) { return type == FloatType::bfloat16 ? at::kBFloat16 : at::kFloat; }

}  // namespace strata::trainer
