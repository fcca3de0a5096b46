// SPDX-License-Identifier: MIT
// AtScopeEnd: a function that is called at the end of a scope, also after an exception.
#pragma once

#include <utility>

namespace strata {

// The function must not throw.
template <class Function>
class [[nodiscard]] AtScopeEnd {
 public:
  explicit AtScopeEnd(Function function) : function_(std::move(function)) {}
  ~AtScopeEnd() { function_(); }
  AtScopeEnd(const AtScopeEnd&) = delete;
  AtScopeEnd& operator=(const AtScopeEnd&) = delete;

 private:
  const Function function_;
};

}  // namespace strata
