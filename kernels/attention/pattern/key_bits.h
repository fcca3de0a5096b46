// SPDX-License-Identifier: MIT
// Evaluates a pattern exactly, for one query and 64 keys at once.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/attention/pattern/program.h"

namespace strata::kernels {

inline constexpr int64_t kKeysOfBits = 64;
static_assert(kKeysOfBits == kBlockPositions, "the keys of a word are in one block");

// Bit b is set for key first_key + b if it is in [begin, end).
uint64_t bits_between(int64_t first_key, int64_t begin, int64_t end);

// Bit b is what one operation that pushes a value gives for key first_key + b. first_key is a multiple of 64. The ids
// in `document_of` must not descend, and bits of keys without an id are 0.
uint64_t key_bits(const Instruction& instruction, int64_t query, int64_t first_key,
                  std::span<const int32_t> document_of);

}  // namespace strata::kernels
