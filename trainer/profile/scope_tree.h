// SPDX-License-Identifier: MIT
// Which scopes of a thread contain which.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "trainer/profile/trace.h"

namespace strata::trainer::profile {

class ScopeTree {
 public:
  static constexpr int64_t kNone = -1;

  // `scopes` must outlive this; those of one thread are nested or apart.
  explicit ScopeTree(const std::vector<Scope>& scopes);

  // The innermost scope that is open on `thread` at `time`: an index, or kNone.
  int64_t innermost(int64_t thread, int64_t time) const;
  // The scope around it, or kNone.
  int64_t parent(int64_t scope) const { return parents_[static_cast<size_t>(scope)]; }
  // The time of each scope in which none of those inside of it was open.
  std::vector<int64_t> own_times() const;

  const Scope& operator[](int64_t scope) const { return scopes_[static_cast<size_t>(scope)]; }
  int64_t size() const { return static_cast<int64_t>(scopes_.size()); }

 private:
  const std::vector<Scope>& scopes_;
  std::vector<int64_t> parents_;
  std::map<int64_t, std::vector<int64_t>> by_thread_;  // in the order in which they start, outer ones first
};

}  // namespace strata::trainer::profile
