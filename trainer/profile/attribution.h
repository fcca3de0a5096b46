// SPDX-License-Identifier: MIT
// Attributes device work to the step, phase, layer, op and level that launched it, using the host's scopes that were
// open at the launch.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "trainer/profile/recording.h"
#include "trainer/profile/scope_tree.h"

namespace strata::trainer::profile {

struct Origin {
  int64_t step = -1;        // -1 between steps
  int64_t layer = -1;       // -1 outside of all layers
  std::string phase = {};   // data, forward, backward, optimizer
  std::string op = {};      // "linear", "all_gather"; without a level, LibTorch's name: "aten::add_"
  std::string level = {};   // empty if it is not an op of Strata
  bool backward = false;    // true for the op's gradient; a recomputed forward has false and the phase backward
  int64_t call = -1;        // equal for all work of one call of the op
  kernels::Work work = {};  // the minimal work of this call; 0 where it is unknown
};

inline constexpr const char* kCollective = "collective";  // the level of all_gather, reduce_scatter, ...
inline constexpr const char* kWait = "wait";              // the level of a collective for which the host waits
inline bool is_communication(const std::string& level) { return level == kCollective || level == kWait; }

class Attribution {
 public:
  // `recording` must outlive this object.
  explicit Attribution(const Recording& recording);

  // Returns the origin of work that `thread` launches at `time`. A thread without scopes is the one that copies
  // batches.
  Origin launch_origin(int64_t thread, int64_t time) const { return origin(tree_.innermost(thread, time), time); }
  // Returns the origin of work inside a scope but outside of its inner scopes.
  Origin scope_origin(int64_t scope) const { return origin(scope, tree_[scope].start); }

  const ScopeTree& tree() const { return tree_; }

 private:
  using Node = std::pair<int64_t, int64_t>;  // thread number, sequence number of the node on that thread
  Origin origin(int64_t scope, int64_t time) const;
  void read_user_scope(int64_t scope, Origin& origin) const;
  void read_backward(const Scope& scope, Origin& origin) const;

  const Recording& recording_;
  ScopeTree tree_;
  std::map<Node, int64_t> calls_;        // scope of the op's call whose forward created the node
  std::vector<int64_t> steps_, phases_;  // scopes sorted by time
};

}  // namespace strata::trainer::profile
