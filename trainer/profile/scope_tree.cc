// SPDX-License-Identifier: MIT
#include "trainer/profile/scope_tree.h"

#include <algorithm>

namespace strata::trainer::profile {

ScopeTree::ScopeTree(const std::vector<Scope>& scopes) : scopes_(scopes), parents_(scopes.size(), kNone) {
  for (size_t i = 0; i < scopes.size(); ++i) by_thread_[scopes[i].thread].push_back(static_cast<int64_t>(i));
  for (auto& [thread, order] : by_thread_) {
    std::stable_sort(order.begin(), order.end(), [this](int64_t a, int64_t b) {
      const Scope &x = (*this)[a], &y = (*this)[b];
      return x.start != y.start ? x.start < y.start : x.end > y.end;
    });
    std::vector<int64_t> open;
    for (const int64_t scope : order) {
      while (!open.empty() && (*this)[open.back()].end < (*this)[scope].end) open.pop_back();
      if (!open.empty()) parents_[static_cast<size_t>(scope)] = open.back();
      open.push_back(scope);
    }
  }
}

int64_t ScopeTree::innermost(int64_t thread, int64_t time) const {
  const auto found = by_thread_.find(thread);
  if (found == by_thread_.end()) return kNone;
  const auto& order = found->second;
  const auto after =
      std::partition_point(order.begin(), order.end(), [&](int64_t scope) { return (*this)[scope].start <= time; });
  if (after == order.begin()) return kNone;
  int64_t scope = *(after - 1);
  while (scope != kNone && (*this)[scope].end <= time) scope = parent(scope);
  return scope;
}

std::vector<int64_t> ScopeTree::own_times() const {
  std::vector<int64_t> times;
  for (const Scope& scope : scopes_) times.push_back(scope.end - scope.start);
  for (size_t i = 0; i < scopes_.size(); ++i) {
    if (parents_[i] != kNone) times[static_cast<size_t>(parents_[i])] -= scopes_[i].end - scopes_[i].start;
  }
  return times;
}

}  // namespace strata::trainer::profile
