// SPDX-License-Identifier: MIT
// Reduces the data of several ranks in rank order, so that the result has the same bits on every rank and in every run.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <vector>

namespace strata::sharding {

enum class Reduction { sum, largest };

// output[i] = ((parts[0][i] + parts[1][i]) + parts[2][i]) + ... bfloat16 and float16 are summed in fp32 and rounded
// once; other dtypes are summed in their own dtype, int64 modulo 2^64. `largest` has the larger number instead of a
// sum; of a NaN and a number it has one. `output` may be one of the parts.
void reduce_in_rank_order(Reduction reduction, c10::ScalarType dtype, const std::vector<const void*>& parts,
                          void* output, int64_t count);

}  // namespace strata::sharding
