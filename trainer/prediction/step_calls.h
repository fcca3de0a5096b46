// SPDX-License-Identifier: MIT
// StepCalls: every op and every collective of a step, from whose measured times a promise is computed.
#pragma once

#include <c10/core/ScalarType.h>

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/runtime/level.h"
#include "kernels/runtime/op_shape.h"
#include "sharding/communication/collective.h"

namespace strata::trainer {

// backward is for an op of the forward that the backward calls, for another reason than recomputation.
enum class StepPart { forward, backward, recomputation, optimizer, evaluation };
inline constexpr std::array<std::string_view, 5> kStepPartNames = {"forward", "backward", "recomputation", "optimizer",
                                                                   "evaluation"};

struct OpCalls {
  kernels::OpShape shape;
  kernels::Level level;
  at::ScalarType dtype;
  StepPart part;
  bool input_gradient = true;  // false: the backward computes no gradient of the first input, because it is data
  int64_t calls = 1;  // calls in one micro-batch; for part optimizer in one step, for part evaluation in one round
};

struct CollectiveCalls {
  sharding::Operation operation;
  int64_t bytes;  // bytes of the larger side
  int ranks;      // ranks of the group
  StepPart part;
  int64_t calls = 1;  // calls in one step; for part evaluation in one round
};

// The calls of forwards; equal calls are counted together, at the place of the first. Backwards are not listed, because
// each call of part forward has one.
struct StepCalls {
  std::vector<OpCalls> ops;
  std::vector<CollectiveCalls> collectives;
};

// Records the calls of a trace. The trace calls begin_forward(), begin_backward() and begin(), so that each call has
// its part.
class CallRecorder {
 public:
  // `recomputes`: the backward calls forward ops to recompute activations.
  CallRecorder(StepCalls& calls, bool recomputes) : calls_(calls), recomputes_(recomputes) {}

  // Nothing is recorded before the first of these three calls. `is_new`: record the ops of this micro-batch. `repeats`:
  // how many micro-batches of the real step have its collectives; each collective is counted that many times.
  void begin_forward(bool is_new, int64_t repeats);
  void begin_backward();
  void begin(StepPart part);
  void enter_layer(bool input_needs_gradient);
  void leave_layer();

  void op(const kernels::OpShape& shape, kernels::Level level, at::ScalarType dtype);
  void collective(const sharding::Collective& collective, int ranks);

 private:
  StepCalls& calls_;
  const bool recomputes_;
  StepPart part_ = StepPart::forward;
  int64_t repeats_ = 0;
  bool is_new_ = false;
  bool input_needs_gradient_ = true, seen_linear_ = false;
};

}  // namespace strata::trainer
