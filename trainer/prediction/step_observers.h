// SPDX-License-Identifier: MIT
// What watches a step while it is traced: the parts that run, the bytes of layers, the shapes of ops, the collectives.
#pragma once

#include <ATen/record_function.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "kernels/runtime/call_observer.h"
#include "kernels/runtime/traced.h"
#include "modules/layer.h"
#include "sharding/communication/silent_communicator.h"
#include "trainer/model/accumulate_gradients.h"
#include "trainer/prediction/step_calls.h"
#include "trainer/prediction/trace_step.h"

namespace strata::trainer {

// Returns the layer whose backward `moment` names, which is a name that a LayerMeter has given; nothing if there is
// none.
std::optional<int64_t> layer_of_backward(const std::string& moment, size_t layers);

// Passes each collective to the recorder, if there is one.
class RecordedCommunicator : public sharding::SilentCommunicator {
 public:
  RecordedCommunicator(int rank, int size, CallRecorder* recorder);
  sharding::PendingCollective start(const sharding::Collective& collective) override;

 private:
  CallRecorder* recorder_;
};

// Tells the Tracing which part of the step runs, and reads how many bytes the forward of each layer leaves.
class LayerMeter {
 public:
  LayerMeter(kernels::Tracing& tracing, StepTrace& trace, CallRecorder* recorder)
      : tracing_(tracing), trace_(trace), recorder_(recorder) {}

  modules::Layer wrap_layer(int64_t index, modules::Layer layer);

 private:
  kernels::Tracing& tracing_;
  StepTrace& trace_;
  CallRecorder* recorder_;
};

// While it lives, the Tracing knows which op runs: the name of its scope, such as "rms_norm/aten". Only one may live in
// a process at a time.
class OpNames {
 public:
  explicit OpNames(kernels::Tracing& tracing);
  ~OpNames();
  OpNames(const OpNames&) = delete;
  OpNames& operator=(const OpNames&) = delete;

 private:
  at::CallbackHandle handle_;
};

// Counts the calls of each shape, and collects their dtypes.
class TracedShapes : public kernels::CallObserver {
 public:
  TracedShapes(StepTrace& trace, CallRecorder* recorder) : trace_(trace), recorder_(recorder) {}

  void call(const kernels::OpShape& shape, kernels::Level level, bool backward, at::ScalarType dtype) override;

 private:
  void add(const kernels::OpShape& shape, at::ScalarType dtype);

  StepTrace& trace_;
  CallRecorder* recorder_;
};

// Follows the forwards and backwards of the micro-batches that are traced.
class PhaseObserver {
 public:
  // `all` is the number of micro-batches of the real step, `traced` of them are traced in each round.
  PhaseObserver(kernels::Tracing& tracing, TracedShapes& shapes, CallRecorder* recorder, int64_t all, int64_t traced)
      : tracing_(tracing), shapes_(shapes), recorder_(recorder), all_(all), traced_(traced) {}

  // Ops are observed in forward and backward of the first micro-batch, because later ones are the same. The backward
  // calls an op too: if a graph is split over ranks, it sums the gradients which other ranks return.
  std::unique_ptr<kernels::ObservedCalls> enter(Phase phase);

 private:
  // How many micro-batches of the real step have the collectives of the one that begins.
  int64_t repeats() const;

  kernels::Tracing& tracing_;
  TracedShapes& shapes_;
  CallRecorder* recorder_;
  const int64_t all_, traced_;
  int64_t begun_ = 0;  // micro-batches
};

}  // namespace strata::trainer
