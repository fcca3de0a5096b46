// SPDX-License-Identifier: MIT
#include "trainer/replicas/replica_watch.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/text/joined.h"
#include "base/text/ranks_text.h"

namespace strata::trainer {
namespace {

using Ranks = std::vector<int>;

// Describes a group of replicas. `parts` are the ranks that hold the same, and there are at least two.
std::string difference(const std::vector<Ranks>& parts) {
  size_t all = 0;
  for (const Ranks& part : parts) all += part.size();
  for (const Ranks& majority : parts) {
    if (2 * majority.size() <= all) continue;
    Ranks others;
    for (const Ranks& part : parts) {
      if (&part != &majority) others.insert(others.end(), part.begin(), part.end());
    }
    std::ranges::sort(others);
    return ranks_text(others) + (others.size() > 1 ? " differ from " : " differs from ") + ranks_text(majority);
  }
  return "no majority says who is right: " + joined(parts, "; ", ranks_text);
}

}  // namespace

ReplicaWatch::ReplicaWatch(int ranks, int shard_ranks, std::string folder)
    : ranks_(ranks), shard_ranks_(shard_ranks), folder_(std::move(folder)) {}

std::string ReplicaWatch::add(int64_t step, std::span<const float> hashes, int64_t recorded) {
  const size_t size = hashes.size() / static_cast<size_t>(ranks_);  // elements of a hash
  std::string found;
  for (int first = 0; first < shard_ranks_; ++first) {
    std::map<std::vector<float>, Ranks> by_hash;
    for (int rank = first; rank < ranks_; rank += shard_ranks_) {
      const auto hash = hashes.subspan(static_cast<size_t>(rank) * size, size);
      by_hash[{hash.begin(), hash.end()}].push_back(rank);
    }
    if (by_hash.size() == 1) continue;
    std::vector<Ranks> parts;
    for (const auto& [hash, ranks] : by_hash) parts.push_back(ranks);
    std::ranges::sort(parts);
    found += "\n  " + difference(parts);
  }
  if (found.empty()) {
    agreed_ = step;
    return "";
  }
  const std::string before =
      agreed_ < 0 ? "they were not compared before" : "after step " + std::to_string(agreed_) + " they were equal";
  return "ranks that must hold the same weights differ after step " + std::to_string(step) + "; " + before + ":" +
         found +
         "\na bit was flipped, in memory or in a computation; no checkpoint has it, because replicas are compared "
         "before each save; give the same command again to go on from the newest one\n'tools/strata replay " +
         folder_ + " --step " + std::to_string(recorded) +
         "' looks for the step and the rank; if the same rank is named again, replace its machine or its GPU";
}

}  // namespace strata::trainer
