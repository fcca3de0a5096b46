// SPDX-License-Identifier: MIT
#include "trainer/step.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <cstdio>
#include <map>
#include <utility>

#include "base/at_scope_end.h"
#include "base/errors.h"
#include "base/permutation.h"
#include "kernels/sum_of_squares/sum_of_squares.h"
#include "sharding/process/failure.h"
#include "sharding/process/stop_request.h"
#include "trainer/config/graph_data_facts.h"
#include "trainer/config/why_not_captured.h"
#include "trainer/memory/memory_report.h"
#include "trainer/memory/refused_memory.h"
#include "trainer/model/accumulate_gradients.h"
#include "trainer/prediction/memory_estimate.h"
#include "trainer/prediction/out_of_memory.h"
#include "trainer/step/learning_rate.h"
#include "trainer/step/strict_step_guard.h"
#include "trainer/tasks/declared_model.h"
#include "trainer/tasks/step_batches.h"

namespace strata::trainer {
namespace {

// Returns the values of all parts, one part after another.
Tensor concatenated(std::vector<Tensor> parts) {
  std::erase_if(parts, [](const Tensor& part) { return part.numel() == 0; });
  return parts.size() == 1 ? parts.front() : at::cat(parts);
}

// Returns what replicas must hold alike; nothing if they are not compared.
std::vector<Tensor> compared_tensors(const sharding::ShardingConfig& config, const sharding::DeviceMesh& mesh,
                                     const Optimizer& optimizer, const ShardedModel& model) {
  if (!config.compares_replicas(mesh.replicate->size())) return {};
  std::vector<Tensor> tensors = optimizer.state();
  if (model.amax_history().is_on()) tensors.push_back(model.amax_history().values());
  return tensors;
}

}  // namespace

using sharding::ShardedParameterGroup;

Step::Step(const TrainerConfig& config, sharding::RankSession& session, std::function<void(const std::string&)> note,
           StepObserver* observer)
    : config_(config),
      session_(session),
      device_(session.device()),
      world_(session.communicator(config.sharding.gather), timer_),
      mesh_(sharding::make_device_mesh(world_, config.sharding)),
      note_(std::move(note)),
      task_(make_task(config)),
      bad_sample_finder_(bad_sample_finder(*task_)),
      ignored_items_(ignored_items_of(*task_)),
      items_{.number = config.batch * task_->items_per_sample(),
             .may_not_count = bad_sample_finder_ != nullptr || ignored_items_ != nullptr,
             .may_be_bad = bad_sample_finder_ != nullptr},
      fault_(config.fault, session.rank(), declared_model(config).groups, *mesh_.shard),
      profiler_(make_profiler()),
      observer_(observer),
      model_(config, *task_, mesh_,
             {.device = device_,
              .wrap_layer =
                  [this](int64_t index, modules::Layer layer) {
                    layer = fault_.wrap_layer(index, std::move(layer));
                    if (observer_ != nullptr) layer = observer_->wrap_layer(index, std::move(layer));
                    return profiler_ ? profiler_->wrap_layer(index, std::move(layer)) : layer;
                  }}),
      kernels_(modules::kernels_for(config.kernels, "")),
      optimizer_(config.optimizer, modules::level_for(config.kernels, "", config.optimizer.op()), model_.groups()),
      pruned_decay_(config.sparsity, declared_model(config).modules, model_.groups()),
      update_gate_(device_),
      replica_hash_(device_, session.rank(), session.ranks(),
                    compared_tensors(config.sharding, mesh_, optimizer_, model_)),
      feed_([this](
                int64_t step) { return data_hashes_.keep(step, read_batches(*task_, config_, session_.rank(), step)); },
            device_, has_graph_per_step(config.data)),
      work_times_(device_, session.rank(), session.ranks(), timer_),
      results_(device_, work_times_.values().numel(), replica_hash_.values().numel()),
      mean_factor_(scalar(1.0 / static_cast<double>(items_.number))),
      updates_(scalar(0)),
      decider_(config.optimizer.gradient_clip, config.run.on_nonfinite, device_),
      stop_(sharding::stop_request_on(device_)),
      one_(scalar(1)) {
  inputs_ = {{}, scalar(0), at::zeros({1}, at::TensorOptions(at::kLong).device(device_))};
  if (config.precision.scales_loss()) loss_scale_.emplace(config.precision.loss_scaling, device_);
  model_.set_prunes(config.sparsity.is_on_in(0));
  choose_capture();
  observe_gradients();
}

void Step::observe_gradients() {
  model_.set_before_reduce([this](ShardedParameterGroup& group) {
    fault_.before_reduce(group);
    if (observer_ != nullptr) observer_->gradients(group);
  });
}

void Step::choose_capture() {
  const std::string why_not =
      why_not_captured(config_.cuda_graph, config_.fault, config_.data, config_.kernels, device_.is_cuda());
  if (why_not.empty()) {
    captured_step_.emplace(session_.gpu_watch());
  } else if (config_.cuda_graph == CudaGraph::on) {
    throw Error(ExitCode::configuration, "cuda_graph is on, and steps cannot be captured: " + why_not);
  } else if (device_.is_cuda() && session_.rank() == 0) {
    std::printf("cuda graph: none, because %s\n", why_not.c_str());
  }
}

std::unique_ptr<profile::Profiler> Step::make_profiler() const {
  if (!config_.profile.steps) return nullptr;
  const int rank = session_.rank(), ranks = session_.ranks();
  return std::make_unique<profile::Profiler>(profile::Profiler::Options{
      .steps = *config_.profile.steps,
      .pruned_from = config_.sparsity.is_on() ? std::optional(config_.sparsity.from_step) : std::nullopt,
      .folder = config_.run.folder,
      .on_gpu = device_.is_cuda(),
      .device = {session_.device_name(), rank, ranks, profile::peaks_of(session_.device_name()),
                 /*one_group=*/config_.sharding.strategy != sharding::Strategy::hybrid},
      .gather = [&session = session_](const std::string& text) { return session.gather(text); },
      .tell = note_});
}

void Step::resume_after(int64_t step, int64_t updates, const std::optional<LossScale::State>& loss_scale) {
  number_ = resumed_after_ = warm_up_begins_after_ = step;
  model_.set_prunes(config_.sparsity.is_on_in(step));
  updates_.fill_(static_cast<double>(updates));
  if (loss_scale_ && loss_scale) loss_scale_->restore(*loss_scale);
}

std::optional<LossScale::State> Step::loss_scale() const {
  return loss_scale_ ? std::optional(loss_scale_->state()) : std::nullopt;
}

void Step::queue_next() {
  ++number_;
  begin_pruning();
  if (profiler_)
    profiler_->begin_step(number_, captured_step_ ? warm_up_begins_after_ + CapturedStep::kWarmUpSteps : 0);
  fill_inputs();
  if (compares_replicas(number_)) {
    const PhaseTimer::Scope scope(timer_, Phase::communication, "hash of the weights");
    replica_hash_.take();
  }
  run_or_replay();
  if (profiler_) profiler_->end_step(number_);
}

// A captured step repeats the work of its capture, so the step is captured again. As at the start, eager steps come
// first, because ops that have not run yet may initialize.
void Step::begin_pruning() {
  if (config_.sparsity.is_on_in(number_) == model_.prunes()) return;
  if (captured_step_) captured_step_->release();
  model_.set_prunes(true);
  warm_up_begins_after_ = number_ - 1;
  if (session_.rank() == 0) note_("sparsity: weights are pruned from step " + std::to_string(number_) + " on");
}

// Each round of micro-batches is one range of samples, split over groups of ranks that share sequences, usually of one
// rank. So the samples of a step do not depend on the number of ranks.
void Step::fill_inputs() {
  sharding::set_position(number_, "data");
  const PhaseTimer::Scope scope(timer_, Phase::data);
  work_times_.write_last();
  if (config_.fault.kind != Fault::none)
    update_gate_.wait_until_open();  // it may change weights that a save still copies
  fault_.begin_step(number_, model_.groups());
  inputs_.micro_batches = feed_.next(number_);
  inputs_.learning_rate.fill_(learning_rate(config_.optimizer.learning_rate, config_.schedule, config_.steps, number_));
  inputs_.dropout_key.fill_(
      static_cast<int64_t>(mix(static_cast<uint64_t>(config_.run.seed), static_cast<uint64_t>(number_))));
  work_times_.inputs_are_set();
}

bool Step::compares_replicas(int64_t number) const {
  const int64_t before = number - 1;
  return replica_hash_.values().numel() > 0 &&
         (before == resumed_after_ || before % config_.sharding.compare_replicas_every == 0);
}

std::vector<float> Step::exchange_hashes() {
  if (replica_hash_.values().numel() == 0) return {};
  sharding::set_position(number_, "comparison of replicas");
  const PhaseTimer::Scope scope(timer_, Phase::communication, "comparison of replicas");
  replica_hash_.take();
  const Tensor hashes = replica_hash_.values().clone();
  world_.all_reduce(hashes, "hashes of weights").wait();
  const Tensor on_host = hashes.cpu();
  return {on_host.const_data_ptr<float>(), on_host.const_data_ptr<float>() + on_host.numel()};
}

void Step::run_or_replay() {
  const int64_t since_start = number_ - warm_up_begins_after_;
  const bool captures = captured_step_ && !captured_step_->is_captured() && since_start > CapturedStep::kWarmUpSteps;
  // The first step may wait for the GPU: it initializes lazily, and ranks compare their collectives on the host. The
  // second may still allocate, until the caching allocator has settled. So may the capture, because a graph has a
  // memory pool of its own, and the rehearsal before it.
  const StrictStepGuard strict(device_, /*may_wait=*/since_start <= 1 || captures,
                               /*may_allocate=*/since_start <= 2 || captures || has_graph_per_step(config_.data));
  with_memory_report([&] {
    if (!captured_step_ || since_start <= CapturedStep::kWarmUpSteps) {
      run();
    } else {
      if (captures) captured_step_->capture([this] { rehearse(); }, [this] { run(); });
      sharding::set_position(number_, "captured step");
      captured_step_->replay();
    }
    strict.check_allocations();
  });
  work_times_.step_is_queued();
  results_.push(number_);
}

void Step::with_memory_report(const std::function<void()>& work) const {
  const auto report = [this](const DeviceMemory& memory, const std::string& request) {
    const auto [groups, modules] = declared_model(config_);
    std::vector<MemoryClass> classes = memory_per_rank(buffer_rules(config_), config_.optimizer, groups, modules);
    classes.push_back({"data and tables of the task", model_.bytes_of_task()});
    return out_of_memory_report(classes, memory, request) + "\n" + what_needs_less(config_);
  };
  report_refused_memory(device_, report, work);
}

// An evaluation exchanges weights and averages, and a save of the step before may still copy both.
void Step::rehearse() {
  update_gate_.wait_until_open();
  rehearse_();
}

void Step::run() {
  const auto enter = [this](Phase phase) {
    sharding::set_position(number_, kPhaseNames[static_cast<size_t>(phase)]);
    return PhaseTimer::Scope(timer_, phase);
  };
  const auto after_backward = [this] {
    if (observer_ != nullptr) observer_->after_backward();
  };
  if (observer_ != nullptr) observer_->begin(model_.groups(), model_.amax_history().largest_by_module());
  // The forward has the scale too, because a fused loss computes gradients there.
  const Tensor factor = loss_scale_ ? mean_factor_ * loss_scale_->value() : mean_factor_;
  Tensor local_loss =
      accumulate_gradients(*task_, model_, inputs_.micro_batches, factor, inputs_.dropout_key, enter, after_backward);
  if (loss_scale_) local_loss = local_loss / loss_scale_->value();
  if (observer_ != nullptr) observer_->end();
  sharding::set_position(number_, "optimizer");
  const PhaseTimer::Scope scope(timer_, Phase::optimizer);
  update(fault_.change(local_loss));
}

void Step::update(const Tensor& local_loss) {
  fault_.after_reduce(model_.groups());
  add_pruned_decay();
  std::map<at::ScalarType, std::vector<Tensor>> gradients;
  for (auto* group : model_.groups()) gradients[group->gradient().scalar_type()].push_back(group->gradient());
  Tensor squares;
  for (const auto& [type, type_gradients] : gradients) {
    const Tensor type_squares = kernels::sum_of_squares(type_gradients, kernels_.sum_of_squares);
    squares = squares.defined() ? squares + type_squares : type_squares;
  }
  if (loss_scale_) squares = squares / loss_scale_->value() / loss_scale_->value();
  // All replicas hold the same gradients, so the squares are divided by the number of replicas. The order is that of
  // `summed`.
  std::vector<Tensor> local = {local_loss, squares / mesh_.replicate->size(), stop_};
  if (items_.may_not_count) local.push_back(counted_items());
  // Each rank fills only its own places of these two tensors, so after the sum they have the values of all ranks.
  const Tensor &work = work_times_.values(), &hashes = replica_hash_.values();
  const Tensor sums = concatenated({at::stack(local), work, hashes});
  world_.all_reduce(sums, "loss and gradient norm").wait();

  const UpdateDecision decided = decider_.decide(sums, items_, loss_scale_ ? &*loss_scale_ : nullptr);
  updates_ += 1 - decided.skipped;
  update_gate_.wait_until_open();
  optimizer_.step({inputs_.learning_rate, updates_, decided.scale, decided.skipped});
  if (model_.amax_history().is_on()) model_.amax_history().end_step(updates_, decided.skipped);
  const int64_t places = work.numel() + hashes.numel();
  results_.write({.loss = decided.loss,
                  .gradient_norm = decided.gradient_norm,
                  .stop = sums.select(0, summed::kStop),
                  .unusable = decided.unusable,
                  .skipped = decided.skipped,
                  .overflowed = decided.overflowed,
                  .loss_scale = loss_scale_ ? loss_scale_->value() : one_,
                  .loss_of_rank = local[summed::kLoss],
                  .squares_of_rank = local[summed::kSquares]},
                 sums.narrow(0, sums.numel() - places, places));
  if (loss_scale_) loss_scale_->update(decided.overflowed * (1 - decider_.halted()), decided.skipped);
}

// The update divides the gradients by the loss scale. If some items do not count, it also multiplies them by the share
// of all items in those that count. The decay is multiplied by the opposite here.
void Step::add_pruned_decay() {
  if (!pruned_decay_.is_on() || !model_.prunes()) return;
  Tensor factor = loss_scale_ ? loss_scale_->value() : one_;
  if (items_.may_not_count) {
    const Tensor counted = counted_items().clone();
    world_.all_reduce(counted, "counted items").wait();
    factor = factor * at::clamp_min(counted, 1) / static_cast<double>(items_.number);
  }
  pruned_decay_.add_to_gradients(factor);
}

// A sample that may be unusable is one item.
Tensor Step::counted_items() const {
  Tensor sum;
  for (const MicroBatch& batch : inputs_.micro_batches) {
    const Tensor batch_items =
        items_.may_be_bad ? bad_sample_finder_->usable_samples(batch) : ignored_items_->items_with_loss(batch);
    sum = sum.defined() ? sum + batch_items : batch_items;
  }
  return sum;
}

// Runs the step again. The weights are still those before the step, so the same inputs give the same gradients. They
// are checked before they are reduced, while each still belongs to one rank, and after it.
NonfiniteStep Step::find_nonfinite(int64_t number) {
  if (captured_step_)
    captured_step_->release();  // frees memory, because the eager step does not fit next to the graph on many GPUs
  number_ = number;
  model_.set_prunes(config_.sparsity.is_on_in(number));  // the first step that prunes may be queued already
  const int rank = session_.rank();
  const bool after_rollback = config_.run.on_nonfinite == OnNonfinite::rollback;
  NonfiniteStep found{.step = number, .rank_findings = {""}, .after_rollback = after_rollback};
  const AtScopeEnd observe_again([this] { observe_gradients(); });
  model_.set_before_reduce([&](ShardedParameterGroup& group) {
    fault_.before_reduce(group);
    if (found.rank_findings[0].empty()) found.rank_findings[0] = first_nonfinite(group, rank);
  });
  try {
    fill_inputs();
    run();
    const StepNumbers<float> numbers = results_.last();
    found.loss = numbers.loss;
    found.gradient_norm = numbers.gradient_norm;
    std::string sum_findings;
    for (auto* group : model_.groups()) {
      if (!sum_findings.empty()) break;
      sum_findings = first_nonfinite_sum(*group, rank, config_.precision.reduce_of(group->name()));
    }
    found.rank_findings = session_.gather(found.rank_findings[0]);
    found.sum_findings = session_.gather(sum_findings);
  } catch (const std::exception& error) {
    if (!refused_by_gpu(error)) throw;
    // Nothing is gathered here, because the other ranks may be in the middle of the step.
    const std::string name = "rank " + std::to_string(rank);
    if (found.rank_findings[0].empty()) {
      found.rank_findings[0] = name + ": not found, because no memory is left to run the step again";
    }
  }
  return found;
}

void Step::explain_skipped_update(int64_t number) { throw nonfinite_error(find_nonfinite(number), config_.precision); }

Tensor Step::scalar(double value) const {
  return at::scalar_tensor(value, at::TensorOptions(at::kFloat).device(device_));
}

}  // namespace strata::trainer
