// SPDX-License-Identifier: MIT
// CallObserver: receives each call of an op with its shape.
#pragma once

#include <c10/core/ScalarType.h>

#include <atomic>
#include <string_view>

#include "kernels/runtime/level.h"
#include "kernels/runtime/op_shape.h"

namespace strata::kernels {

class CallObserver {
 public:
  virtual ~CallObserver() = default;
  // Called before each forward, and before each backward that the op implements itself, with the dtype of its elements.
  // There is one call at a time, in the thread of the op: autograd has a thread for each GPU. It must not call ops, and
  // must not begin or end an ObservedCalls.
  virtual void call(const OpShape& shape, Level level, bool backward, at::ScalarType dtype) = 0;
};

// In its scope, `observer` receives the calls of all threads, and the previous observer receives none. Scopes end in
// the reverse of the order in which they began.
class ObservedCalls {
 public:
  explicit ObservedCalls(CallObserver& observer);
  ~ObservedCalls();
  ObservedCalls(const ObservedCalls&) = delete;
  ObservedCalls& operator=(const ObservedCalls&) = delete;

 private:
  CallObserver* before_;
};

inline std::atomic<CallObserver*> call_observer{nullptr};
// Returns true if there is an observer. It costs one load, so that a step without an observer takes no longer.
inline bool calls_are_observed() { return call_observer.load(std::memory_order_relaxed) != nullptr; }

// Passes the call to the observer, if it is still there. Throws if `op` is not the op of the shape.
void report_call(std::string_view op, const OpShape& shape, Level level, bool backward, at::ScalarType dtype);

}  // namespace strata::kernels
