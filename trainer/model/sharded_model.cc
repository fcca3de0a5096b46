// SPDX-License-Identifier: MIT
#include "trainer/model/sharded_model.h"

#include <algorithm>

#include "base/all_threads.h"
#include "base/errors.h"
#include "kernels/quantize/fp8_shard.h"
#include "kernels/quantize/weight_codes.h"
#include "kernels/runtime/gradient_destination.h"
#include "modules/initialization.h"
#include "modules/model_sources.h"
#include "modules/recompute.h"
#include "sharding/parameters/run_in_backward.h"
#include "trainer/config/scalar_type.h"
#include "trainer/layout/coding.h"
#include "trainer/layout/group_layout.h"
#include "trainer/memory/allocation_meter.h"
#include "trainer/tasks/declared_model.h"
#include "trainer/tasks/task_powers.h"

namespace strata::trainer {
namespace {

using modules::ResidualStream;
using modules::Role;
using modules::StepContext;
using sharding::FlatLayout;
using sharding::ShardedParameterGroup;
using sharding::SlotPool;

// Each rank initializes its own shard only. The full model exists on no rank.
void initialize(ShardedParameterGroup& group, const modules::ParameterGroup& parameters, uint64_t seed,
                int64_t layers) {
  Tensor shard = group.master().cpu();
  group.for_each_piece([&](const FlatLayout::Entry& entry, int64_t parameter_offset, int64_t shard_offset,
                           int64_t count) {
    const auto parameter = std::ranges::find(parameters.parameters, entry.name, &modules::Parameter::name);
    float* const values = shard.mutable_data_ptr<float>() + shard_offset;
    constexpr int64_t kFewest = 1 << 16;
    on_all_threads(count, kFewest, [&](int64_t begin, int64_t end) {
      modules::initialize_parameter(*parameter, seed, layers, parameter_offset + begin, end - begin, values + begin);
    });
  });
  group.master().copy_(shard);
  if (group.compute_copy().defined()) group.compute_copy().copy_(shard);
}

// Wraps a layer so that it casts the stream to its own type. The modules after the layers cast it too.
modules::Layer cast_layer(modules::Layer layer, FloatType own) {
  return [type = scalar_type(own), layer = std::move(layer)](const ResidualStream& stream, const StepContext& context) {
    return layer(modules::cast_stream(stream, type), context);
  };
}

// Adapts a layer of streams to the sharding, whose layers take and return tensors.
modules::Layer fully_shard(modules::Layer layer, size_t index, sharding::FullyShardedLayers& layers) {
  return [layer = std::move(layer), index, &layers](const ResidualStream& stream, const StepContext& context) {
    const auto outputs = layers.run(index, {stream.residual, stream.branch}, [&](const std::vector<Tensor>& inputs) {
      const ResidualStream output = layer({inputs[0], inputs[1]}, context);
      return std::vector<Tensor>{output.residual, output.branch};
    });
    return ResidualStream{outputs[0], outputs[1]};
  };
}

}  // namespace

ShardedModel::ShardedModel(const TrainerConfig& config, Task& task, const sharding::DeviceMesh& mesh, Options options)
    : task_(task), mesh_(mesh), options_(std::move(options)) {
  const auto [table, declared_modules] = declared_model(config);
  const BufferRules rules = buffer_rules(config);
  add_pools(rules, table);
  const int64_t coded = coded_weights(rules, table);
  if (coded > 0) weight_scales_.emplace(coded, *mesh.shard, options_.device);
  std::vector<FloatType> types;  // types of layers
  for (const auto& parameters : table) {
    add_group(rules, parameters);
    if (parameters.role == Role::layer) types.push_back(config.precision.compute_of(parameters.name));
  }
  const auto layers = static_cast<int64_t>(types.size());
  std::vector<ShardedParameterGroup*> slot_groups;
  for (size_t i = 0; i < table.size(); ++i) {
    if (options_.initialized) initialize(*groups_[i], table[i], static_cast<uint64_t>(config.run.seed), layers);
    if (table[i].role == Role::root) root_ = groups_[i];
    if (table[i].role == Role::layer) slot_groups.push_back(groups_[i]);
    if (table[i].role == Role::head) head_ = groups_[i];
  }
  layers_ = std::make_unique<sharding::FullyShardedLayers>(
      std::move(slot_groups),
      sharding::FullyShardedLayers::Options{config.sharding.reshard_after_forward, config.sharding.prefetch});

  share_samples(task_, *mesh_.world);
  split_sequences(task_, mesh_.sequence.get());
  amax_history_.emplace(config.precision.linear, declared_modules, *mesh_.world, options_.device);
  modules::BindingSource parameters([this](const std::string& name) { return parameter(name); },
                                    [this](const std::string& module) { return amax_history_->of(module); }, prunes_);
  {
    const AllocationMeter meter(options_.device);
    task_.build_model(modules::Scope(parameters, config.kernels, &config.precision.linear, &config.sparsity),
                      options_.device);
    bytes_of_task_ = meter.counts().current_bytes;
  }
  task_.wrap_layers([&](int64_t index, modules::Layer layer) {
    if (config.precision.is_mixed()) layer = cast_layer(std::move(layer), types.at(static_cast<size_t>(index)));
    const Recompute recompute = config.gradient_checkpointing.of(index);
    if (recompute == Recompute::full) layer = modules::recompute(std::move(layer));
    if (recompute == Recompute::selective) layer = modules::recompute_selectively(std::move(layer));
    if (options_.wrap_layer) layer = options_.wrap_layer(index, std::move(layer));
    layer = fully_shard(std::move(layer), static_cast<size_t>(index), *layers_);
    return index + 1 == layers ? wrap_last_layer_for_head(std::move(layer)) : layer;
  });
}

ShardedModel::~ShardedModel() {
  for (const auto* group : groups_) {
    for (const Tensor& parameter : group->parameters()) {
      kernels::clear_gradient_destination(parameter);
      kernels::clear_weight_codes(parameter);
    }
  }
}

void ShardedModel::add_pools(const BufferRules& rules, const std::vector<modules::ParameterGroup>& table) {
  const SlotCounts counts = slot_counts(rules, table);
  for (const Slots& slots : counts.weights) {
    weight_slots_[slots.type] = add_weight_pool(slots.count, slots.elements, scalar_type(slots.type));
  }
  for (const Slots& slots : counts.gradients) {
    gradient_slots_[slots.type] = add_gradient_pool(slots.count, slots.elements, scalar_type(slots.type));
  }
}

SlotPool* ShardedModel::add_weight_pool(int64_t slots, int64_t elements, at::ScalarType type) {
  const auto make = [&] { return mesh_.shard->gather_buffer(elements, at::device(options_.device).dtype(type)); };
  return pools_.emplace_back(std::make_unique<SlotPool>(slots, make, options_.poison_slots)).get();
}

SlotPool* ShardedModel::add_gradient_pool(int64_t slots, int64_t elements, at::ScalarType type) {
  const auto options = at::device(options_.device).dtype(type);
  return pools_.emplace_back(std::make_unique<SlotPool>(slots, elements, options, options_.poison_slots)).get();
}

void ShardedModel::add_group(const BufferRules& rules, const modules::ParameterGroup& parameters) {
  const FlatLayout layout = layout_of(parameters, mesh_.shard->size());
  const FloatType compute = rules.precision.compute_of(parameters.name);
  const FloatType reduce = rules.precision.reduce_of(parameters.name);
  const sharding::MixedPrecisionPolicy precision{scalar_type(compute), scalar_type(reduce)};
  const bool sharded = mesh_.shard->size() > 1;
  SlotPool *weight_slots = nullptr, *gradient_slots = nullptr;
  if (sharded) {
    weight_slots = parameters.role == Role::layer ? weight_slots_.at(compute)
                                                  : add_weight_pool(1, layout.elements(), precision.compute);
    gradient_slots = keeps_full_gradient(rules.sharding, parameters)
                         ? add_gradient_pool(1, layout.elements(), scalar_type(full_gradient_type(rules, parameters)))
                         : gradient_slots_.at(reduce);
  }

  ShardedParameterGroup::Options group_options = {parameters.name, precision, options_.device,
                                                  micro_batch_sum(rules, parameters)};
  if (const auto coded = coded_layout(rules, parameters)) {
    group_options.coding = {*coded, weight_scales_->take(coded->coded_entries()), kernels::write_weight_codes};
  }
  owned_.push_back(std::make_unique<ShardedParameterGroup>(std::move(group_options), layout, *mesh_.shard,
                                                           *mesh_.replicate, weight_slots, gradient_slots));
  ShardedParameterGroup* group = owned_.back().get();
  groups_.push_back(group);
  if (weight_scales_) weight_scales_->watch(*group);
  for (size_t i = 0; i < group->parameters().size(); ++i) {
    kernels::set_gradient_destination(group->parameters()[i], [group, i] {
      const auto [into, add] = group->take_gradient_destination(i);
      return kernels::GradientDestination{into, add};
    });
    const auto [codes, scale] = group->coded(i);
    if (codes.defined()) kernels::set_weight_codes(group->parameters()[i], {codes, scale});
  }
}

modules::Layer ShardedModel::wrap_last_layer_for_head(modules::Layer layer) {
  return [this, layer = std::move(layer)](const ResidualStream& stream, const StepContext& context) {
    if (head_ != nullptr) head_->wait_for_unshard();
    const ResidualStream output = layer(stream, context);
    const auto outputs =
        sharding::run_in_backward({output.residual, output.branch}, [this] { start_reduce_of_the_head(); });
    return ResidualStream{outputs[0], outputs[1]};
  };
}

void ShardedModel::start_reduce_of_the_head() {
  if (head_ == nullptr || head_is_reduced_) return;
  head_->start_reduce(last_micro_batch_);
  head_is_reduced_ = true;
}

Tensor ShardedModel::parameter(const std::string& name) const {
  for (const auto* group : groups_) {
    const auto& entries = group->layout().entries();
    for (size_t i = 0; i < entries.size(); ++i) {
      if (entries[i].name == name) return group->parameters()[i];
    }
  }
  throw Error(ExitCode::internal, "the model asks for a parameter '" + name + "' that it has not declared");
}

void ShardedModel::begin_step() {
  for (auto* group : groups_) group->begin_step();
  if (weight_scales_) weight_scales_->update();
  // Groups are gathered in the order of their use. An untied head is not needed before the layers, so it is gathered
  // after the first of them.
  if (root_ != nullptr) root_->start_unshard();
  layers_->start_forward();
  if (head_ != nullptr) head_->start_unshard();
  if (root_ != nullptr) root_->wait_for_unshard();
}

void ShardedModel::finish_backward() {
  layers_->finish_backward();
  start_reduce_of_the_head();  // if the backward did not do it
  head_is_reduced_ = false;
  if (root_ != nullptr) root_->start_reduce(last_micro_batch_);
  if (!last_micro_batch_) return;
  for (auto* group : {root_, head_}) {
    if (group != nullptr) group->wait_for_reduce();
  }
  for (auto& pool : pools_) pool->finish_all();
}

void ShardedModel::reshard() {
  for (auto* group : groups_) group->reshard();
}

void ShardedModel::set_before_reduce(ShardedParameterGroup::BeforeReduce observe) {
  for (auto* group : groups_) group->set_before_reduce(observe);
}

int64_t ShardedModel::bytes() const {
  int64_t sum = amax_history_->bytes() + (weight_scales_ ? weight_scales_->bytes() : 0);
  for (const auto& pool : pools_) sum += pool->bytes();
  for (const auto* group : groups_) sum += group->bytes();
  return sum;
}

}  // namespace strata::trainer
