// SPDX-License-Identifier: MIT
// Where work comes from: the step, phase, layer, op and level that gave it to a device, by the scopes of the host that
// were open.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "trainer/profile/scope_tree.h"
#include "trainer/profile/trace.h"

namespace strata::trainer::profile {

struct Origin {
  int64_t step = -1;       // -1: between steps
  int64_t layer = -1;      // -1: none of the layers
  std::string phase = {};  // data, forward, backward, optimizer
  std::string op = {};     // "linear", "all_gather"; without a level what LibTorch calls it: "aten::add_"
  std::string level = {};  // empty: not an op of ours
  bool backward = false;   // the op's gradient. A forward that is recomputed is forward in the phase backward.
  int64_t call = -1;       // the same for all work of one call of the op
};

inline constexpr const char* kCollective = "collective";  // the level of all_gather, reduce_scatter, ...
inline constexpr const char* kWait = "wait";              // its level where the host waits for it
inline bool is_communication(const std::string& level) { return level == kCollective || level == kWait; }

class Attribution {
 public:
  // `trace` must outlive this.
  explicit Attribution(const Trace& trace);

  // Of what `thread` launches at `time`. A thread without any scope is the one that copies batches.
  Origin of_launch(int64_t thread, int64_t time) const { return origin(tree_.innermost(thread, time), time); }
  // Of what happens in a scope and in none inside of it.
  Origin of_scope(int64_t scope) const { return origin(scope, tree_[scope].start); }

  const ScopeTree& tree() const { return tree_; }

 private:
  using Node = std::pair<int64_t, int64_t>;  // thread number, number of the node on it
  Origin origin(int64_t scope, int64_t time) const;
  void read_user_scope(int64_t scope, Origin& origin) const;
  void read_backward(const Scope& scope, Origin& origin) const;

  const Trace& trace_;
  ScopeTree tree_;
  std::map<Node, int64_t> calls_;        // of an op, in whose forward LibTorch made the node
  std::vector<int64_t> steps_, phases_;  // scopes, by time
};

}  // namespace strata::trainer::profile
