// SPDX-License-Identifier: MIT
// Records hashes of all that one step computes: outputs of ops and layers, and gradients, in their order. Two runs of a
// step from the same state then show the first op that differs.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/ledger/computed_outputs.h"
#include "trainer/ledger/step_observer.h"

namespace strata::trainer {

class OpTrace : public StepObserver {
 public:
  struct Entry {
    std::string place;  // "layer 2, forward: aten::mm"
    uint64_t hash = 0;
    bool has_nan = false;
  };

  OpTrace() = default;
  ~OpTrace() override { end(); }
  OpTrace(const OpTrace&) = delete;
  OpTrace& operator=(const OpTrace&) = delete;

  void arm() override { armed_ = true; }
  // Ops of the layer's forward and backward are attributed to it.
  modules::Layer wrap_layer(int64_t index, modules::Layer layer) override;
  // Hashes the weights of this rank, and records ops of the calling thread and of autograd's threads that work for it,
  // until end(). Only one trace may record at a time.
  void begin(const std::vector<sharding::ShardedParameterGroup*>& groups,
             const std::map<std::string, at::Tensor>& amax) override;
  // Hashes the gradients of this rank in the group, before they are reduced.
  void gradients(const sharding::ShardedParameterGroup& group) override;
  void after_backward() override { layer_.reset(); }
  void end() override;

  const std::vector<Entry>& entries() const { return entries_; }

 private:
  static std::unique_ptr<at::ObserverContext> op_begins(const at::RecordFunction& function);
  static void op_ends(const at::RecordFunction& function, at::ObserverContext* context);
  void add(const std::string& place, const at::Tensor& tensor);
  std::string here() const;

  bool armed_ = false;
  at::CallbackHandle callback_ = at::INVALID_CALLBACK_HANDLE;  // valid while ops are recorded
  std::optional<int64_t> layer_;                               // the layer that computes
  int backwards_ = 0;                                          // nodes of the backward that are running
  ComputedOutputs outputs_;
  std::vector<Entry> entries_;
};

// Returns the index of the first entry that has a NaN. Infinite values do not count, because masks have them.
std::optional<size_t> first_nan(const std::vector<OpTrace::Entry>& entries);
// Returns the index of the first entry that differs; nothing if all are equal.
std::optional<size_t> first_difference(const std::vector<OpTrace::Entry>& one, const std::vector<OpTrace::Entry>& two);

}  // namespace strata::trainer
