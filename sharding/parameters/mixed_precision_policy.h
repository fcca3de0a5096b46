// SPDX-License-Identifier: MIT
// The dtypes of a sharded group: layers compute in one, gradients are reduced in one, masters are always fp32.
#pragma once

#include <c10/core/ScalarType.h>

namespace strata::sharding {

struct MixedPrecisionPolicy {
  at::ScalarType compute = at::kFloat;
  at::ScalarType reduce = at::kFloat;
};

}  // namespace strata::sharding
