// SPDX-License-Identifier: MIT
// SequenceChunks: how ranks share each sequence (context parallelism).
#pragma once

#include <array>
#include <cstdint>

namespace strata::modules {

// Each sequence is cut into 2 n chunks for its n ranks, and rank r has the chunks r and 2 n - 1 - r. So causal
// attention costs each rank the same.
struct SequenceChunks {
  int64_t ranks, sequence;  // 2 * ranks divides sequence

  int64_t length() const { return sequence / (2 * ranks); }
  // Where the two chunks of a rank begin.
  std::array<int64_t, 2> starts(int64_t rank) const { return {rank * length(), (2 * ranks - 1 - rank) * length()}; }
};

}  // namespace strata::modules
