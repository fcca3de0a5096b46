// SPDX-License-Identifier: MIT
#include "tools/replay/nonfinite_search.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <utility>

#include "modules/graph/graph_step.h"
#include "modules/rotary_tables.h"
#include "modules/sequences.h"
#include "sharding/parameters/run_in_backward.h"
#include "trainer/checkpoint/checkpoint.h"

namespace strata::tools {
namespace {

at::Tensor detached(const at::Tensor& tensor) { return tensor.defined() ? tensor.detach() : tensor; }

at::Tensor on_host(const at::Tensor& tensor) {
  const at::RecordFunctionGuard unrecorded(/*is_enabled=*/false);
  return tensor.detach().to(at::kCPU, /*non_blocking=*/false, /*copy=*/true).contiguous();
}

bool finite(const std::array<at::Tensor, 2>& tensors) {
  return std::ranges::all_of(tensors, [](const at::Tensor& tensor) { return facts_of(tensor).finite(); });
}

// Saves the part of the graph that the layer reads. The rest of a NeighborGraph follows from it.
void save_graph(const modules::GraphStep& step, SavedLayer& layer) {
  const auto& [graph, edge_weight] = step.layer_graph(layer.layer);
  layer.sources = graph.sources;
  layer.tensors["context.graph_offsets"] = on_host(graph.by_target.offsets);
  layer.tensors["context.graph_neighbors"] = on_host(graph.by_target.neighbors);
  if (edge_weight.defined()) layer.tensors["context.edge_weight"] = on_host(edge_weight);
  if (step.aggregated_features.defined())
    layer.tensors["context.aggregated_features"] = on_host(step.aggregated_features);
}

// Returns words that name the first weight of a layer that is not finite itself; empty if there is none.
std::string bad_weight(const sharding::ShardedParameterGroup& group) {
  for (size_t i = 0; i < group.parameters().size(); ++i) {
    if (facts_of(group.parameters()[i]).finite()) continue;
    return ", whose " + group.layout().entries()[i].name + " is not finite";
  }
  return "";
}

// Keeps the gradient that arrives at a tensor.
void keep_gradient(const at::Tensor& of, std::shared_ptr<void> owner, at::Tensor& into) {
  if (!of.defined() || !of.requires_grad()) return;
  of.register_hook([owner = std::move(owner), &into](const at::Tensor& gradient) { into = detached(gradient); });
}

}  // namespace

modules::Layer NonfiniteSearch::wrap_layer(int64_t index, modules::Layer layer) {
  return [this, index, layer = std::move(layer)](const modules::ResidualStream& stream,
                                                 const modules::StepContext& context) {
    return watching_ ? watched(index, layer, stream, context) : layer(stream, context);
  };
}

// Tensors that pass through run_in_backward are used only inside, or only outside, of the layer. So the gradients that
// arrive at them are those of the layer alone.
modules::ResidualStream NonfiniteSearch::watched(int64_t index, const modules::Layer& layer,
                                                 const modules::ResidualStream& stream,
                                                 const modules::StepContext& context) {
  ++event_;
  const auto call = std::make_shared<Call>();
  call->layer = index;
  call->input = {detached(stream.residual), detached(stream.branch)};
  call->context = context;
  if (!found_ && !finite(call->input)) found_outside("before layer " + std::to_string(index) + ", forward");
  const auto inputs = sharding::run_in_backward({stream.residual, stream.branch}, [this] { backward_ends(); });
  for (size_t i = 0; i < inputs.size(); ++i) keep_gradient(inputs[i], call, call->input_gradient[i]);
  first_op_ = ops_.ops().size();
  const modules::ResidualStream output = layer({inputs[0], inputs[1]}, context);
  call->output = {detached(output.residual), detached(output.branch)};
  if (!found_ && !finite(call->output)) {
    found_in(*call, /*backward=*/false);
    found_call_ = call;
  }
  const auto outputs =
      sharding::run_in_backward({output.residual, output.branch}, [this, call] { backward_begins(call); });
  for (size_t i = 0; i < outputs.size(); ++i) keep_gradient(outputs[i], call, call->output_gradient[i]);
  first_op_ = ops_.ops().size();
  return {outputs[0], outputs[1]};
}

void NonfiniteSearch::begin(const std::vector<sharding::ShardedParameterGroup*>& groups,
                            const std::map<std::string, at::Tensor>& amax) {
  if (!armed_) return;
  watching_ = true;
  for (auto* group : groups) groups_[group->name()] = group;
  amax_ = amax;
  ops_.begin();
}

void NonfiniteSearch::backward_begins(const std::shared_ptr<Call>& call) {
  ++event_;
  if (!found_ && !finite(call->output_gradient)) {
    found_outside("after layer " + std::to_string(call->layer) + ", forward of the loss or its backward");
  }
  in_backward_ = call;
  first_op_ = ops_.ops().size();
}

// The weights are still complete, and the gradients of this rank are not reduced yet.
void NonfiniteSearch::backward_ends() {
  ++event_;
  if (in_backward_ == nullptr) return;
  const auto call = std::exchange(in_backward_, nullptr);
  if (!found_) {
    const auto& gradients = group_of(*call).full_gradients();
    const bool good = finite(call->input_gradient) && std::ranges::all_of(gradients, [](const at::Tensor& gradient) {
                        return facts_of(gradient).finite();
                      });
    if (!good) {
      found_in(*call, /*backward=*/true);
      complete(*call);
    }
  } else if (call == found_call_) {
    complete(*call);
    found_call_.reset();
  }
  *call = {};  // hooks hold the call until the whole backward has ended; its tensors are freed now
  first_op_ = ops_.ops().size();
}

void NonfiniteSearch::gradients(const sharding::ShardedParameterGroup& group) {
  if (!watching_) return;
  ++event_;
  for (size_t i = 0; i < group.full_gradients().size() && !found_; ++i) {
    if (facts_of(group.full_gradients()[i]).finite()) continue;
    found_outside("gradient of " + group.layout().entries()[i].name);
  }
}

void NonfiniteSearch::after_backward() {
  if (!watching_) return;
  backward_ends();
  ++micro_batch_;
}

void NonfiniteSearch::end() {
  ops_.end();
  watching_ = false;
}

void NonfiniteSearch::found_outside(const std::string& place) {
  found_ = Found{.event = event_,
                 .place = "micro-batch " + std::to_string(micro_batch_) + ", outside of the layers, " + place,
                 .op = ops_.first_maker(first_op_),
                 .layer = {},
                 .why_not = "only a layer can be saved and run alone"};
}

void NonfiniteSearch::found_in(const Call& call, bool backward) {
  const std::string& name = names_.at(call.layer);
  found_ = Found{.event = event_,
                 .place = "micro-batch " + std::to_string(micro_batch_) + ", layer " + std::to_string(call.layer) +
                          " (" + name + "), " + (backward ? "backward" : "forward") + bad_weight(group_of(call)),
                 .op = ops_.first_maker(first_op_),
                 .layer = {},
                 .why_not = {}};
  const auto* const graph = call.context.find<modules::GraphStep>();
  if (graph != nullptr && graph->with_halo) {
    found_->why_not = "the graph is split over the ranks, and the layer exchanges rows with them";
    return;
  }
  SavedLayer& layer = found_->layer.emplace();
  layer.micro_batch = micro_batch_;
  layer.layer = call.layer;
  layer.name = name;
  layer.op = found_->op;
  layer.backward = backward;
  layer.first_row = call.context.first_row;
  const auto& group = group_of(call);
  layer.gradient_type = trainer::dtype_name(group.full_gradients().front());
  for (size_t i = 0; i < group.parameters().size(); ++i) {
    layer.tensors["weight." + group.layout().entries()[i].name] = on_host(group.parameters()[i]);
  }
  for (const auto& [module, largest] : amax_) {
    if (module.starts_with(name + ".")) layer.tensors["amax." + module] = on_host(largest);
  }
  for (size_t i = 0; i < kStreamParts.size(); ++i) {
    if (call.input[i].defined()) layer.tensors[std::string("input.") + kStreamParts[i]] = on_host(call.input[i]);
    if (call.output[i].defined()) layer.seen[std::string("output.") + kStreamParts[i]] = seen(call.output[i]);
  }
  if (call.context.dropout_key.defined()) layer.tensors["context.dropout_key"] = on_host(call.context.dropout_key);
  if (const auto* tables = call.context.find<modules::RotaryTables>()) {
    layer.tensors["context.cosine"] = on_host(tables->cosine);
    layer.tensors["context.sine"] = on_host(tables->sine);
  }
  if (const auto* documents = call.context.find<modules::Documents>()) {
    layer.tensors["context.document_offsets"] = on_host(documents->offsets);
  }
  if (graph != nullptr) save_graph(*graph, layer);
}

// The gradients of the call, which are known at the end of its backward.
void NonfiniteSearch::complete(const Call& call) {
  if (!found_->layer) return;
  SavedLayer& layer = *found_->layer;
  for (size_t i = 0; i < kStreamParts.size(); ++i) {
    const at::Tensor &arrived = call.output_gradient[i], &passed_on = call.input_gradient[i];
    if (arrived.defined()) layer.tensors[std::string("output_gradient.") + kStreamParts[i]] = on_host(arrived);
    if (passed_on.defined()) layer.seen[std::string("input_gradient.") + kStreamParts[i]] = seen(passed_on);
  }
  const auto& group = group_of(call);
  for (size_t i = 0; i < group.full_gradients().size(); ++i) {
    layer.seen["weight_gradient." + group.layout().entries()[i].name] = seen(group.full_gradients()[i]);
  }
}

}  // namespace strata::tools
