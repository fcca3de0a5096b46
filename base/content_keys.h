// SPDX-License-Identifier: MIT
// The two keys of ContentSum in base/digest.h. Kernels that compute the same sum include them from here.
#pragma once

#include <cstdint>

namespace strata {

inline constexpr uint64_t kIndexKey = 0xa0761d6478bd642f,
                          kValueKey = 0xe7037ed1a0b428db;  // odd, half of their bits set

}  // namespace strata
