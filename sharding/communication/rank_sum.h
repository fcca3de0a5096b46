// SPDX-License-Identifier: MIT
// The sum of what several ranks sent, in rank order: the same bits wherever and whenever it is computed.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <vector>

namespace strata::sharding {

// output[i] = ((parts[0][i] + parts[1][i]) + parts[2][i]) + ...; bfloat16 is summed in fp32 and rounded once, the other
// dtypes in their own. `output` may be one of the parts.
void sum_in_rank_order(c10::ScalarType dtype, const std::vector<const void*>& parts, void* output, int64_t count);

}  // namespace strata::sharding
