// SPDX-License-Identifier: MIT
// A group of ranks that exchange small texts on the host: for start-up, comparisons of collectives and the ids of
// device communicators.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace strata::sharding {

class MpiThread;

// Copies refer to the same group. All ranks of a group call the same functions in the same order. Every message carries
// its purpose; if purposes differ between ranks, all of them get an error (communication) that names both sides.
class HostGroup {
 public:
  HostGroup() = default;                                  // a single rank, without MPI
  explicit HostGroup(std::shared_ptr<MpiThread> thread);  // all ranks

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }
  // The members' ranks in the whole run, in the order of this group.
  const std::vector<int>& members() const { return members_; }
  // "all ranks", "ranks 0-3 (group 1)" or "ranks 1 and 3 (group 2)"; the same on all ranks of the group. It is short,
  // because the watchdogs exchange it in messages of 1 KiB.
  const std::string& name() const { return name_; }

  // Returns the texts of all ranks, in rank order, on every rank. A rank sends log2(size) messages, and as many again
  // if a text has more than about 1,000 bytes.
  std::vector<std::string> gather(const std::string& text, std::string_view purpose) const;
  // Returns the group of the ranks with the same color, ordered by rank.
  HostGroup split(int color) const;

  const std::shared_ptr<MpiThread>& thread() const { return thread_; }
  // Returns the MPI tag for messages of this group. `kind` is in [0, kinds()); gather uses kind 0.
  int tag(unsigned kind) const;
  unsigned kinds() const;  // 255 at least, 2^20 - 1 at most

 private:
  // Brings a part of each rank to all ranks in log2(size) rounds, in a job of the thread. Part i belongs to the i-th
  // rank after this one, and has the bytes [begins[i], begins[i + 1]).
  void pass_on(std::byte* parts, const std::vector<size_t>& begins) const;
  void check_purposes(const std::vector<std::string>& texts) const;

  std::shared_ptr<MpiThread> thread_;  // null for a single rank
  std::vector<int> members_ = {0};
  int rank_ = 0;
  int id_ = 0;
  std::string name_ = "all ranks";
};

}  // namespace strata::sharding
