// SPDX-License-Identifier: MIT
#include "kernels/runtime/call_observer.h"

#include <c10/util/Exception.h>

#include <mutex>

namespace strata::kernels {
namespace {

// Locked during a call, so that an observer exists as long as it is called, and needs no lock of its own.
std::mutex& guard() {
  static std::mutex mutex;
  return mutex;
}

CallObserver* replace(CallObserver* observer) {
  const std::lock_guard lock(guard());
  return call_observer.exchange(observer);
}

}  // namespace

ObservedCalls::ObservedCalls(CallObserver& observer) : before_(replace(&observer)) {}
ObservedCalls::~ObservedCalls() { replace(before_); }

void report_call(std::string_view op, const OpShape& shape, Level level, bool backward, at::ScalarType dtype) {
  TORCH_CHECK(shape.op() == op, "a call of ", op, " reported a shape of ", shape.op());
  const std::lock_guard lock(guard());
  if (CallObserver* observer = call_observer.load()) observer->call(shape, level, backward, dtype);
}

}  // namespace strata::kernels
