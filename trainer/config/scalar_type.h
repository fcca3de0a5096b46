// SPDX-License-Identifier: MIT
// Maps a configured type to the one of LibTorch. It is not in precision_config.h, because that header must do without
// LibTorch.
#pragma once

#include <c10/core/ScalarType.h>

#include "trainer/config/precision_config.h"

namespace strata::trainer {

inline at::ScalarType scalar_type(FloatType type) {
  switch (type) {
    case FloatType::float32:
      return at::kFloat;
    case FloatType::bfloat16:
      return at::kBFloat16;
    case FloatType::float16:
      return at::kHalf;
  }
  return at::kFloat;  // unreachable: the switch is complete
}

}  // namespace strata::trainer
