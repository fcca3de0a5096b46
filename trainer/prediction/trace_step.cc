// SPDX-License-Identifier: MIT
#include "trainer/prediction/trace_step.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>
#include <variant>

#include "kernels/adamw/adamw_shape.h"
#include "kernels/runtime/call_observer.h"
#include "kernels/sum_of_squares/sum_of_squares_shape.h"
#include "modules/config/kernel_selection.h"
#include "sharding/communication/silent_communicator.h"
#include "sharding/parameters/device_mesh.h"
#include "trainer/config/data_config.h"
#include "trainer/config/graph_data_facts.h"
#include "trainer/levels/pattern_check.h"
#include "trainer/model/accumulate_gradients.h"
#include "trainer/model/sharded_model.h"
#include "trainer/prediction/size_limit.h"
#include "trainer/prediction/step_observers.h"
#include "trainer/replicas/replica_hash.h"
#include "trainer/step/update_decision.h"
#include "trainer/step/work_times.h"
#include "trainer/tasks/task_powers.h"

namespace strata::trainer {
namespace {

using kernels::Level;
using kernels::Tracing;
using sharding::SilentCommunicator;

// While it lives, ops choose deterministic algorithms if the run does.
class Determinism {
 public:
  explicit Determinism(bool wanted) : before_(at::globalContext().deterministicAlgorithms()) { set(wanted); }
  ~Determinism() { set(before_); }

 private:
  static void set(bool wanted) { at::globalContext().setDeterministicAlgorithms(wanted, /*warn_only=*/false); }
  const bool before_;
};

MicroBatch batch_without_values(const Task& task, int64_t samples) {
  return task.example_batch(samples).with_each(
      [](const Tensor& tensor) { return tensor.is_meta() ? tensor : tensor.to(at::kMeta); });
}

sharding::DeviceMesh silent_mesh(SilentCommunicator& world, const sharding::ShardingConfig& config,
                                 CallRecorder* recorder) {
  const auto shards = static_cast<int>(config.ranks_per_copy(world.size())), parts = static_cast<int>(config.sequence);
  const auto group = [&](int rank, int size) { return std::make_unique<RecordedCommunicator>(rank, size, recorder); };
  return {.shard = group(world.rank() % shards, shards),
          .replicate = group(world.rank() / shards, world.size() / shards),
          .sequence = parts == 1 ? nullptr : group(world.rank() % parts, parts),
          .world = &world};
}

// Observes the ops of an evaluation for the recorder alone.
class OnlyRecorded : public kernels::CallObserver {
 public:
  explicit OnlyRecorded(CallRecorder& recorder) : recorder_(recorder) {}
  void call(const kernels::OpShape& shape, Level level, bool, at::ScalarType dtype) override {
    recorder_.op(shape, level, dtype);
  }

 private:
  CallRecorder& recorder_;
};

kernels::OpShape shape_of_update(const AdamW&, int64_t elements) { return kernels::AdamwShape{.elements = elements}; }

// Adds the ops of an update (trainer/step.cc, trainer/optimizer.cc): one norm for all gradients of a type, and for each
// group one or two calls of the optimizer's op.
void add_updates(const ShardedModel& model, const OptimizerConfig& optimizer, const modules::KernelsConfig& kernels,
                 TracedShapes& shapes) {
  const Level level = modules::level_for(kernels, "", optimizer.op());
  const Level norm_level = modules::level_for(kernels, "", "sum_of_squares");
  std::map<at::ScalarType, int64_t> gradients;
  for (sharding::ShardedParameterGroup* group : model.groups()) {
    const at::ScalarType type = group->gradient().scalar_type();
    for (const auto& part : group->layout().parts_of_shard(group->shard_rank())) {
      const auto shape = [&part](const auto& update) { return shape_of_update(update, part.count); };
      shapes.call(std::visit(shape, optimizer.type), level, /*backward=*/false, type);
    }
    gradients[type] += group->master().numel();
  }
  for (const auto& [type, elements] : gradients) {
    shapes.call(kernels::SumOfSquaresShape{.elements = elements}, norm_level, /*backward=*/false, type);
  }
}

// Stands for a plan that is not measured yet: attention is at the first level that all layers take.
void choose_levels(TrainerConfig& config, Level level) {
  config.kernels.default_level = level;
  const std::optional<RunAttention> attention = attention_of_run(config);
  for (const Level attention_level : {Level::triton, Level::aten}) {
    if (refused_levels_of_attention(attention, config.kernels, config.precision).empty()) return;
    config.kernels.levels.attention = attention_level;
  }
}

bool recomputes(const GradientCheckpointing& checkpointing, int64_t layers) {
  for (int64_t layer = 0; layer < layers; ++layer) {
    if (checkpointing.of(layer) != Recompute::none) return true;
  }
  return false;
}

// True if some items of a step may not count, so that ranks add the number of those that do.
bool may_not_count(const TrainerConfig& config, const Task& task) {
  return bad_sample_finder(task) != nullptr || has_encoded_images(config.data) || ignored_items_of(task) != nullptr;
}

// Returns how many numbers the ranks add in the one all-reduce of an update (Step::update in trainer/step.cc).
int64_t numbers_of_update(const TrainerConfig& config, const Task& task, const sharding::DeviceMesh& mesh) {
  const int64_t ranks = mesh.world->size();
  const int64_t hashes = config.sharding.compares_replicas(mesh.replicate->size()) ? ranks * ReplicaHash::kParts : 0;
  return (may_not_count(config, task) ? summed::kCounted + 1 : summed::kCounted) +
         WorkTimes::count(device_of_trace(config.run.device), ranks) + hashes;
}

// Records the collectives of an update.
void record_update(CallRecorder& recorder, const TrainerConfig& config, const Task& task,
                   const sharding::DeviceMesh& mesh, ShardedModel& model, const Tensor& scale) {
  recorder.begin(StepPart::optimizer);
  const auto add = [&](int64_t numbers, const char* what) {
    recorder.collective(sharding::all_reduce_of(at::empty({numbers}, scale.options()), what), mesh.world->size());
  };
  const bool decays = config.sparsity.is_on() && config.sparsity.decay != 0;
  if (decays && may_not_count(config, task)) add(1, "counted items");
  add(numbers_of_update(config, task, mesh), "loss and gradient norm");
  if (model.amax_history().is_on()) model.amax_history().end_step(/*updates=*/scale, /*skipped=*/scale);
}

// What accumulate_gradients() runs in a trace. Each micro-batch is `batch`.
struct TracedInputs {
  Task& task;
  ShardedModel& model;
  const MicroBatch& batch;
  const Tensor &scale, &dropout_key;
};

// Runs the forward and the backward of a step, until ops save the tensors that they save in later steps. `tracing` then
// has the peak of the last round. If `blocks` is given, it gets the allocations of this round.
void trace_rounds(const TrainerConfig& config, const TracedInputs& inputs, Tracing& tracing, TracedShapes& shapes,
                  CallRecorder* recorder, std::vector<kernels::TracedBlock>* blocks) {
  const int64_t before = tracing.current_bytes();
  // The second micro-batch adds to the gradients of the first. Later ones take no more, but the collectives of the last
  // one may differ.
  const int64_t all = config.micro_batches(), traced = std::min<int64_t>(all, recorder != nullptr ? 3 : 2);
  const std::vector<MicroBatch> batches(static_cast<size_t>(traced), inputs.batch);
  PhaseObserver phases(tracing, shapes, recorder, all, traced);
  // TorchScript profiles the first call of a function, and that call saves other tensors than later ones. So the second
  // round counts.
  const int rounds = modules::compiles_in_first_calls(config.kernels) ? 2 : 1;
  std::optional<OpNames> names;
  if (blocks != nullptr) names.emplace(tracing);
  for (int round = 0; round < rounds; ++round) {
    tracing.reset_peak();
    if (blocks != nullptr) {
      *blocks = {{.bytes = tracing.current_bytes() - before, .place = "the round before"}};
      tracing.record();
    }
    accumulate_gradients(
        inputs.task, inputs.model, batches, inputs.scale, inputs.dropout_key,
        [&](Phase phase) { return phases.enter(phase); },
        [&] { tracing.set_place("the backward's sum over replicas"); });
  }
  names.reset();
  if (blocks != nullptr) std::ranges::move(tracing.take_recorded(), std::back_inserter(*blocks));
}

int64_t bytes_of_evaluation(Tracing& tracing, const Task& task, ShardedModel& model, const MicroBatch& batch,
                            CallRecorder* recorder) {
  std::optional<OnlyRecorded> observer;
  std::optional<kernels::ObservedCalls> observed;
  if (recorder != nullptr) {
    recorder->begin(StepPart::evaluation);
    observed.emplace(observer.emplace(*recorder));
  }
  const at::NoGradGuard no_gradients;
  const int64_t before = tracing.current_bytes();
  tracing.reset_peak();
  model.begin_step();
  task.evaluation_sums(batch);
  model.reshard();
  return tracing.peak_bytes() - before;
}

StepTrace trace_any_step(TrainerConfig config, Task& task, int rank, StepCalls* calls,
                         std::vector<kernels::TracedBlock>* blocks) {
  const c10::DeviceType device = device_of_trace(config.run.device);
  const bool on_gpu = device == c10::kCUDA;
  check_chunks(config, on_gpu);
  if (!config.kernels.default_level) choose_levels(config, on_gpu ? Level::cuda : Level::aten);
  const Determinism determinism(config.run.deterministic);
  Tracing tracing(device);
  StepTrace trace;
  std::optional<CallRecorder> own_recorder;
  if (calls != nullptr) {
    own_recorder.emplace(*calls, recomputes(config.gradient_checkpointing, modules::layer_count(config.model)));
  }
  CallRecorder* const recorder = own_recorder ? &*own_recorder : nullptr;
  LayerMeter meter(tracing, trace, recorder);
  const auto options = at::TensorOptions(at::kMeta);

  RecordedCommunicator world(rank, static_cast<int>(config.run.ranks), recorder);
  const sharding::DeviceMesh mesh = silent_mesh(world, config.sharding, recorder);
  TracedShapes shapes(trace, recorder);
  // A task on a whole graph sums features once, while its model is built. These calls are not part of a step.
  std::optional<kernels::ObservedCalls> observes_construction;
  if (shares_samples(config.model, config.data)) observes_construction.emplace(shapes);
  ShardedModel model(
      config, task, mesh,
      {.device = at::kMeta,
       .wrap_layer = [&](int64_t index, modules::Layer layer) { return meter.wrap_layer(index, std::move(layer)); },
       .initialized = false});
  observes_construction.reset();
  trace.task = model.bytes_of_task();

  const Tensor scale = at::empty({}, options.dtype(at::kFloat)), dropout_key = at::empty({1}, options.dtype(at::kLong));
  const int64_t before_batch = tracing.current_bytes();
  const MicroBatch batch = batch_without_values(task, config.micro_batch);
  const int64_t copies = on_gpu ? 3 : 1;  // as the feed has them
  trace.batches = bytes_of_batches(config, tracing.current_bytes() - before_batch, copies * config.micro_batches());

  const int64_t before_step = tracing.current_bytes();
  trace_rounds(config, {task, model, batch, scale, dropout_key}, tracing, shapes, recorder, blocks);
  if (recorder != nullptr) record_update(*recorder, config, task, mesh, model, scale);
  add_updates(model, config.optimizer, config.kernels, shapes);
  trace.kept -= before_step;
  trace.peak = tracing.peak_bytes() - before_step;
  trace.peak_place = tracing.peak_place();
  trace.backward_of = layer_of_backward(trace.peak_place, trace.kept_by_layer.size());
  // The evaluation comes last, as in a run, because TorchScript optimizes a function for its first call. It would
  // change `trace`, because the meter writes there, so the result is a copy.
  StepTrace result = trace;
  // An evaluation of many graphs has as many of them as a training step and no backward, so it needs less. Its labels
  // have another shape.
  if (labels_whole_graphs(config.data)) return result;
  result.evaluation = bytes_of_evaluation(tracing, task, model, batch, recorder);
  return result;
}

}  // namespace

c10::DeviceType device_of_trace(sharding::DeviceSetting run_device) {
  return run_device == sharding::DeviceSetting::cpu ? c10::kCPU : c10::kCUDA;
}

StepTrace trace_step(TrainerConfig config, Task& task, int rank, StepCalls* calls,
                     std::vector<kernels::TracedBlock>* blocks) {
  try {
    return trace_any_step(config, task, rank, calls, blocks);
  } catch (const c10::Error& error) {
    if (!kernels::is_too_large_to_trace(error)) throw;
    throw too_large(config, std::string("a tensor, or all of them, would have more than 2^60 bytes (") +
                                error.what_without_backtrace() + ")");
  }
}

std::optional<StepTrace> trace_step_without_data(const TrainerConfig& config) {
  const std::unique_ptr<Task> task = make_task_without_data(config);
  if (!task) return std::nullopt;
  return trace_step(config, *task);
}

std::unique_ptr<Task> task_to_trace(const TrainerConfig& config) {
  std::unique_ptr<Task> task = make_task_without_data(config);
  return task ? std::move(task) : make_task(config);
}

std::vector<UsedShape> used_shapes(TrainerConfig config, c10::DeviceType device) {
  config.run.device = device == c10::kCUDA ? sharding::DeviceSetting::cuda : sharding::DeviceSetting::cpu;
  // At level aten each op runs at every shape and type. No level changes the shapes, except that linear_cross_entropy
  // makes head and loss one op.
  const bool is_fused = config.kernels.levels.linear_cross_entropy.has_value();
  config.kernels = {};
  config.gradient_checkpointing = {};  // calls that recompute a forward are not counted
  config.kernels.default_level = Level::aten;
  if (is_fused) config.kernels.levels.linear_cross_entropy = Level::aten;
  return trace_step(config, *task_to_trace(config)).shapes;
}

std::vector<std::vector<UsedShape>> shapes_by_head(TrainerConfig config, c10::DeviceType device) {
  std::optional<Level>& head_and_loss = config.kernels.levels.linear_cross_entropy;
  head_and_loss.reset();
  std::vector<std::vector<UsedShape>> result = {used_shapes(config, device)};
  if (!modules::can_fuse_head(config.model) || modules::has_line_for_head(config.kernels)) return result;
  head_and_loss = Level::aten;
  result.push_back(used_shapes(config, device));
  return result;
}

}  // namespace strata::trainer
