// SPDX-License-Identifier: MIT
// The dtypes of a parameter group: one for compute and one for reducing gradients; master weights are always fp32.
#pragma once

#include <c10/core/ScalarType.h>

namespace strata::sharding {

struct MixedPrecisionPolicy {
  at::ScalarType compute = at::kFloat;
  at::ScalarType reduce = at::kFloat;
};

}  // namespace strata::sharding
