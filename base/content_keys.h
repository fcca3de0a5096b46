// SPDX-License-Identifier: MIT
// The two keys of the mix of (index, bits of the value) in base/digest.cc, for kernels that compute the same mix.
#pragma once

#include <cstdint>

namespace strata {

inline constexpr uint64_t kIndexKey = 0xa0761d6478bd642f,
                          kValueKey = 0xe7037ed1a0b428db;  // odd, half of their bits set

}  // namespace strata
