// SPDX-License-Identifier: MIT
#include "trainer/prediction/step_calls.h"

#include <algorithm>

namespace strata::trainer {

void CallRecorder::begin_forward(bool is_new, int64_t repeats) {
  part_ = StepPart::forward;
  repeats_ = repeats;
  is_new_ = is_new;
  input_needs_gradient_ = seen_linear_ = false;  // ids, pixels and features of nodes need none
}

void CallRecorder::begin_backward() { part_ = recomputes_ ? StepPart::recomputation : StepPart::backward; }

void CallRecorder::begin(StepPart part) {
  part_ = part;
  repeats_ = 1;
  is_new_ = input_needs_gradient_ = true;
}

void CallRecorder::enter_layer(bool input_needs_gradient) {
  input_needs_gradient_ = input_needs_gradient;
  seen_linear_ = false;
}

void CallRecorder::leave_layer() { input_needs_gradient_ = true; }

// linear and neighbor_aggregate read the input of the layer itself. Inputs of later ops depend on a weight, so they
// need a gradient.
void CallRecorder::op(const kernels::OpShape& shape, kernels::Level level, at::ScalarType dtype) {
  if (!is_new_) return;
  const bool linear = shape.op() == "linear", aggregate = shape.op() == "neighbor_aggregate";
  if (!linear && !aggregate) input_needs_gradient_ = true;
  bool input_gradient = input_needs_gradient_ || (aggregate && seen_linear_);
  seen_linear_ = seen_linear_ || linear;
  if (part_ != StepPart::forward) {
    // A recomputed op has no backward, and it takes as long as the forward of the same op.
    const auto forward = std::ranges::find_if(calls_.ops, [&](const OpCalls& other) {
      return other.shape == shape && other.level == level && other.dtype == dtype;
    });
    input_gradient = forward == calls_.ops.end() || forward->input_gradient;
  }
  const auto same = std::ranges::find_if(calls_.ops, [&](const OpCalls& other) {
    return other.shape == shape && other.level == level && other.dtype == dtype && other.part == part_ &&
           other.input_gradient == input_gradient;
  });
  if (same == calls_.ops.end()) {
    calls_.ops.push_back({shape, level, dtype, part_, input_gradient});
  } else {
    ++same->calls;
  }
}

void CallRecorder::collective(const sharding::Collective& collective, int ranks) {
  if (ranks == 1 || repeats_ == 0) return;
  const int64_t bytes = collective.bytes();
  const StepPart part = part_ == StepPart::recomputation ? StepPart::backward : part_;
  const auto same = std::ranges::find_if(calls_.collectives, [&](const CollectiveCalls& other) {
    return other.operation == collective.operation && other.bytes == bytes && other.ranks == ranks &&
           other.part == part;
  });
  if (same == calls_.collectives.end()) {
    calls_.collectives.push_back({collective.operation, bytes, ranks, part, repeats_});
  } else {
    same->calls += repeats_;
  }
}

}  // namespace strata::trainer
