// SPDX-License-Identifier: MIT
// Reads an open file by position. The place of the descriptor does not move, so several threads may read one file.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata {

// Reads `bytes` bytes from `offset` on, or fewer if the file ends before. Returns how many were read, and -1 if the
// system refuses; errno has the reason.
int64_t read_at(int file, uint64_t offset, void* into, size_t bytes);

}  // namespace strata
