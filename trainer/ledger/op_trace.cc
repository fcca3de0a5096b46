// SPDX-License-Identifier: MIT
#include "trainer/ledger/op_trace.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/isnan.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "base/digest.h"
#include "sharding/parameters/run_in_backward.h"

namespace strata::trainer {
namespace {

// The trace that is recording, or null. It is global, because LibTorch's callbacks are plain functions without state.
OpTrace* recording = nullptr;

}  // namespace

modules::Layer OpTrace::wrap_layer(int64_t index, modules::Layer layer) {
  return [this, index, layer = std::move(layer)](const modules::ResidualStream& stream,
                                                 const modules::StepContext& context) {
    if (callback_ == at::INVALID_CALLBACK_HANDLE) return layer(stream, context);
    const auto inputs = sharding::run_in_backward({stream.residual, stream.branch}, [this] { layer_.reset(); });
    layer_ = index;
    const modules::ResidualStream output = layer({inputs[0], inputs[1]}, context);
    if (output.branch.defined()) add(here() + "branch that the layer returns", output.branch);
    add(here() + "residual that the layer returns", output.residual);
    layer_.reset();
    const auto outputs = sharding::run_in_backward({output.residual, output.branch}, [this, index] { layer_ = index; });
    return modules::ResidualStream{outputs[0], outputs[1]};
  };
}

void OpTrace::begin(const std::vector<sharding::ShardedParameterGroup*>& groups,
                    const std::map<std::string, at::Tensor>& /*amax*/) {
  if (!armed_) return;
  TORCH_CHECK(recording == nullptr, "a trace of ops records already");
  for (auto* group : groups) {
    const std::string name = "weights of group " + group->name() + ": ";
    group->for_each_piece([&](const auto& entry, int64_t /*parameter_offset*/, int64_t shard_offset, int64_t count) {
      add(name + entry.name, group->master().narrow(0, shard_offset, count));
    });
    if (group->compute_copy().defined()) add(name + "compute copy", group->compute_copy());
  }
  recording = this;
  callback_ = at::addThreadLocalCallback(at::RecordFunctionCallback(op_begins, op_ends)
                                             .needsOutputs(true)
                                             .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
}

void OpTrace::gradients(const sharding::ShardedParameterGroup& group) {
  if (callback_ == at::INVALID_CALLBACK_HANDLE) return;
  for (size_t i = 0; i < group.full_gradients().size(); ++i) {
    add("gradients of group " + group.name() + ": " + group.layout().entries()[i].name, group.full_gradients()[i]);
  }
}

void OpTrace::end() {
  if (callback_ == at::INVALID_CALLBACK_HANDLE) return;
  at::removeCallback(callback_);
  callback_ = at::INVALID_CALLBACK_HANDLE;
  recording = nullptr;
}

std::unique_ptr<at::ObserverContext> OpTrace::op_begins(const at::RecordFunction& function) {
  if (recording != nullptr && function.scope() == at::RecordScope::BACKWARD_FUNCTION) ++recording->backwards_;
  return nullptr;
}

void OpTrace::op_ends(const at::RecordFunction& function, at::ObserverContext* /*context*/) {
  if (recording == nullptr) return;
  if (function.scope() == at::RecordScope::BACKWARD_FUNCTION) {
    --recording->backwards_;
    return;
  }
  const std::string place = recording->here() + function.name();
  for (const at::Tensor& tensor : recording->outputs_.of(function)) recording->add(place, tensor);
}

void OpTrace::add(const std::string& place, const at::Tensor& tensor) {
  const at::RecordFunctionGuard unrecorded(/*is_enabled=*/false);
  const at::NoGradGuard no_gradients;
  Entry& entry = entries_.emplace_back();
  entry.place = place;
  if (!tensor.defined() || !tensor.has_storage() || tensor.storage().data() == nullptr) return;
  const at::Tensor values = tensor.detach().cpu().contiguous();
  entry.hash = hash_bytes(values.const_data_ptr(), values.nbytes(), static_cast<uint64_t>(values.scalar_type()));
  entry.has_nan = values.is_floating_point() && at::isnan(values).any().item<bool>();
}

std::string OpTrace::here() const {
  if (!layer_) return backwards_ > 0 ? "outside of the layers, backward: " : "outside of the layers: ";
  return "layer " + std::to_string(*layer_) + (backwards_ > 0 ? ", backward: " : ", forward: ");
}

std::optional<size_t> first_nan(const std::vector<OpTrace::Entry>& entries) {
  const auto found = std::ranges::find(entries, true, &OpTrace::Entry::has_nan);
  return found == entries.end() ? std::nullopt : std::optional<size_t>(found - entries.begin());
}

std::optional<size_t> first_difference(const std::vector<OpTrace::Entry>& one, const std::vector<OpTrace::Entry>& two) {
  const size_t most = std::max(one.size(), two.size());
  for (size_t i = 0; i < most; ++i) {
    if (i >= one.size() || i >= two.size() || one[i].hash != two[i].hash || one[i].place != two[i].place) return i;
  }
  return std::nullopt;
}

}  // namespace strata::trainer
