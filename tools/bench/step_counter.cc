// SPDX-License-Identifier: MIT
#include "tools/bench/step_counter.h"

#include <ATen/core/ivalue.h>
#include <c10/util/Exception.h>

#include <memory>
#include <string_view>

namespace strata::tools {
namespace {

// The callbacks of LibTorch are plain functions.
StepCounter* counting = nullptr;
// Operators that have begun in this thread and have not ended, since a node of the backward began. The backward as a
// whole runs inside of the operator aten::_backward.
thread_local int running = 0;

struct RunningBefore : at::ObserverContext {
  int count = running;
};

}  // namespace

StepCounter::StepCounter(c10::Device device) : meter_(device) {
  TORCH_CHECK(counting == nullptr, "a counter of steps counts already");
  counting = this;
  operators_ = at::addThreadLocalCallback(at::RecordFunctionCallback(operator_begins, operator_ends)
                                              .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
  // Only the scopes of Strata give their inputs. Copies of an operator's inputs would keep tensors that it may reuse.
  scopes_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(scope_begins).needsInputs(true).scopes({at::RecordScope::USER_SCOPE}));
}

StepCounter::~StepCounter() {
  at::removeCallback(scopes_);
  at::removeCallback(operators_);
  counting = nullptr;
}

std::unique_ptr<at::ObserverContext> StepCounter::operator_begins(const at::RecordFunction& function) {
  auto before = std::make_unique<RunningBefore>();
  if (function.scope() == at::RecordScope::BACKWARD_FUNCTION) {
    running = 0;
  } else if (running++ == 0 && counting != nullptr) {
    const std::lock_guard lock(counting->mutex_);
    ++counting->counts_.operators[function.name()];
  }
  return before;
}

void StepCounter::operator_ends(const at::RecordFunction& /*function*/, at::ObserverContext* context) {
  running = static_cast<RunningBefore*>(context)->count;
}

// TimedCommunicator gives the bytes of a collective as the input of its scope.
std::unique_ptr<at::ObserverContext> StepCounter::scope_begins(const at::RecordFunction& function) {
  if (function.inputs().empty() || counting == nullptr) return nullptr;
  const std::string_view name = function.name();  // "all_gather blocks.3"
  const std::lock_guard lock(counting->mutex_);
  StepCounts::Collectives& counted = counting->counts_.collectives[std::string(name.substr(0, name.find(' ')))];
  ++counted.calls;
  counted.bytes += function.inputs()[0].toInt();
  return nullptr;
}

void StepCounter::begin_step() {
  const std::lock_guard lock(mutex_);
  counts_ = {};
  meter_.reset_peak();
  counts_at_start_ = meter_.counts();
}

StepCounts StepCounter::counts() const {
  const std::lock_guard lock(mutex_);
  StepCounts counts = counts_;
  const trainer::AllocationCounts now = meter_.counts();
  counts.allocations = now.allocations - counts_at_start_.allocations;
  counts.allocated_bytes = now.allocated_bytes - counts_at_start_.allocated_bytes;
  return counts;
}

}  // namespace strata::tools
