// SPDX-License-Identifier: MIT
// Finds ranks that hold other weights than their replicas, from the hashes of all ranks.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace strata::trainer {

class ReplicaWatch {
 public:
  // The ranks r, r + shard_ranks, r + 2 * shard_ranks ... are replicas of each other. `folder` is that of the run.
  ReplicaWatch(int ranks, int shard_ranks, std::string folder);

  // `hashes` are those of all ranks, rank by rank, after `step`. Returns "", or who differs, since when, and what to
  // do: the same on all ranks. `recorded` is the last step in the ledger.
  std::string add(int64_t step, std::span<const float> hashes, int64_t recorded);

 private:
  const int ranks_, shard_ranks_;
  const std::string folder_;
  int64_t agreed_ = -1;  // the last step after which all replicas were equal; -1: none of this process
};

}  // namespace strata::trainer
