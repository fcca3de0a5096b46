// SPDX-License-Identifier: MIT
// The nesting of scopes on each thread.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "trainer/profile/recording.h"

namespace strata::trainer::profile {

class ScopeTree {
 public:
  static constexpr int64_t kNone = -1;

  // `scopes` must outlive this object. Scopes of one thread are nested or disjoint.
  explicit ScopeTree(const std::vector<Scope>& scopes);

  // Returns the innermost scope that is open on `thread` at `time`, or kNone.
  int64_t innermost(int64_t thread, int64_t time) const;
  // Returns the enclosing scope, or kNone.
  int64_t parent(int64_t scope) const { return parents_[static_cast<size_t>(scope)]; }
  // Returns the time of each scope without its inner scopes.
  std::vector<int64_t> own_times() const;

  const Scope& operator[](int64_t scope) const { return scopes_[static_cast<size_t>(scope)]; }
  int64_t size() const { return static_cast<int64_t>(scopes_.size()); }

 private:
  const std::vector<Scope>& scopes_;
  std::vector<int64_t> parents_;
  std::map<int64_t, std::vector<int64_t>> by_thread_;  // sorted by start, outer scopes first
};

}  // namespace strata::trainer::profile
