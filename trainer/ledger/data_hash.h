// SPDX-License-Identifier: MIT
// Hashes of the micro-batches of each step, taken on the host before they are copied to a device.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <vector>

#include "trainer/tasks/micro_batch.h"

namespace strata::trainer {

// Returns the sum of the hashes of the micro-batches: shapes, types, contents, and their places in the step. The sums
// of all ranks add up to the same number on any number of ranks, if micro_batch is the same.
uint64_t data_hash(const std::vector<MicroBatch>& batches);

// Keeps the hashes of the last steps. The threads that read batches compute them, so that on GPUs no step waits.
class DataHashes {
 public:
  // Keeps the hash of the batches of a step, and returns the batches. Several threads may call it at once.
  std::vector<MicroBatch> keep(int64_t step, std::vector<MicroBatch> batches);
  // Returns the hash of one of the last steps that were read. Throws Error (internal) if it is kept no more.
  uint64_t of(int64_t step) const;

 private:
  struct Kept {
    int64_t step = -1;
    uint64_t hash = 0;
  };
  // Batches are read at most 9 steps before the results of a step are.
  mutable std::mutex mutex_;
  std::array<Kept, 32> kept_;
};

}  // namespace strata::trainer
