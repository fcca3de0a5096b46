// SPDX-License-Identifier: MIT
// Finds ranks that hold other weights than their replicas, from the hashes of all ranks.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace strata::trainer {

class ReplicaWatch {
 public:
  // The ranks r, r + shard_ranks, r + 2 * shard_ranks ... are replicas of each other. `folder` is the folder of the
  // run.
  ReplicaWatch(int ranks, int shard_ranks, std::string folder);

  // `hashes` has the hashes of rank 0 after `step`, then the hashes of rank 1, and so on. Returns "" if replicas agree,
  // otherwise a message with the ranks that differ, the steps since which they do, and what to do. All ranks return the
  // same text. `recorded` is the last step in the ledger.
  std::string add(int64_t step, std::span<const float> hashes, int64_t recorded);

 private:
  const int ranks_, shard_ranks_;
  const std::string folder_;
  int64_t agreed_ = -1;  // the last step after which all replicas were equal; -1: none of this process
};

}  // namespace strata::trainer
