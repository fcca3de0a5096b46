// SPDX-License-Identifier: MIT
#include "trainer/trainer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp_max.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <numeric>

#include "base/permutation.h"
#include "kernels/global_norm/global_norm.h"
#include "sharding/process/failure.h"
#include "sharding/process/stop_request.h"
#include "trainer/evaluation.h"
#include "trainer/initial_weights.h"
#include "trainer/learning_rate.h"
#include "trainer/memory/device_memory.h"
#include "trainer/memory/peak_memory.h"
#include "trainer/nonfinite_gradient.h"
#include "trainer/profile/call_work.h"
#include "trainer/resume.h"
#include "trainer/strict_step.h"
#include "trainer/weights_hash.h"

namespace strata::trainer {
namespace {

using sharding::ShardedParameterGroup;

bool due(int64_t step, int64_t every) { return every > 0 && step % every == 0; }

}  // namespace

Trainer::Trainer(const TrainerConfig& config, const std::string& resolved, sharding::Bootstrap& bootstrap)
    : config_(config),
      resolved_(resolved),
      bootstrap_(bootstrap),
      device_(bootstrap.device()),
      ranks_{bootstrap.rank(), bootstrap.ranks(), [this](const std::string& text) { return bootstrap_.gather(text); }},
      world_(bootstrap.communicator(config.sharding.gather), timer_),
      mesh_(sharding::make_device_mesh(world_, config.sharding)),
      task_(make_task(config)),
      bad_samples_(*task_, ranks_.gather),
      fault_(config.fault, ranks_.rank, *mesh_.shard),
      profiler_(make_profiler()),
      model_(config, *task_, mesh_,
             {.device = device_,
              .around =
                  [this](int64_t index, modules::Layer layer) {
                    layer = fault_.around(std::move(layer));
                    return profiler_ ? profiler_->around(index, std::move(layer)) : layer;
                  }}),
      kernels_(modules::kernels_for(config.kernels, "")),
      optimizer_(config.optimizer, kernels_.adamw, model_.groups()),
      feed_([this](int64_t step) { return read_batches(step); }, device_, config.sees_new_graphs()),
      results_(device_),
      loss_scale_(scalar(1.0 / static_cast<double>(config.batch * task_->items_per_sample()))),
      updates_(scalar(0)),
      halted_(scalar(0)),
      one_(scalar(1)),
      last_step_(config.run.stop_after > 0 ? std::min(config.steps, config.run.stop_after) : config.steps) {
  inputs_ = {{}, scalar(0), at::zeros({1}, at::TensorOptions(at::kLong).device(device_)), scalar(0)};
  const std::string no_graph = why_no_graph(config, device_.is_cuda());
  if (no_graph.empty()) {
    graph_.emplace(bootstrap_.gpu_watch());
  } else if (config.cuda_graph == CudaGraph::on) {
    throw Error(ExitCode::configuration, "cuda_graph is on, and steps cannot be captured: " + no_graph);
  } else if (device_.is_cuda() && ranks_.rank == 0) {
    std::printf("cuda graph: none, because %s\n", no_graph.c_str());
  }
  model_.set_before_reduce([this](ShardedParameterGroup& group) { fault_.before_reduce(group); });
}

ExitCode Trainer::train() {
  start();
  while (step_ < last_step_ && !stop_) {
    next_step();
    const bool pauses =
        step_ == last_step_ || due(step_, config_.evaluation.every) || due(step_, config_.checkpoint.every);
    look_at_results(/*all=*/pauses);
    if (stop_) look_at_results(/*all=*/true);
    const bool last = step_ == last_step_ || stop_;
    if (!last && due(step_, config_.evaluation.every)) {
      const int64_t wanted = config_.evaluation.tokens / task_->items_per_sample();
      evaluate_samples(wanted > 0 ? std::min(wanted, task_->evaluation_samples()) : task_->evaluation_samples());
    }
    if (last || pauses || due(step_, config_.log.every)) tell_bad_samples();
    finish_save(/*wait=*/false);
    if (last || due(step_, config_.checkpoint.every)) save();
    bootstrap_.end_step();
  }
  finish_save(/*wait=*/true);
  // Behind the last checkpoint, so that no training is lost when a long evaluation is cut off: the run that is resumed
  // then makes up for it.
  if (step_ == last_step_ && !last_step_is_evaluated()) evaluate_samples(task_->evaluation_samples());
  if (profiler_) profiler_->finish();
  bootstrap_.rest();
  if (metrics_) metrics_->note(metrics_->phase_table());
  return stop_ && step_ < last_step_ ? ExitCode::preempted : ExitCode::done;
}

Measurement Trainer::measure(int64_t warm_up, int64_t steps) {
  using Clock = std::chrono::steady_clock;
  Measurement measured{.items_per_sample = task_->items_per_sample(), .graph = task_->graph_sizes()};
  Clock::time_point last;
  const auto look = [&](bool all) {
    while (const std::optional<StepResult> result = results_.next(all)) {
      const Clock::time_point now = Clock::now();
      const std::chrono::duration<double, std::milli> passed = now - last;
      if (result->step > warm_up + steps) {
        measured.profiled_milliseconds.push_back(passed.count());
      } else if (result->step > warm_up) {
        measured.milliseconds.push_back(passed.count());
      }
      last = now;
      measured.loss = result->loss;
    }
  };
  const int64_t last_step = std::max(warm_up + steps, config_.profile.steps ? config_.profile.steps->last : 0);
  while (step_ < last_step) {
    if (step_ == warm_up) measured.device_allocations = -device_allocations(device_);
    next_step();
    if (step_ == warm_up + steps) measured.device_allocations += device_allocations(device_);
    look(/*all=*/step_ == warm_up + steps);  // before the profiler starts, which takes time of its own
    bootstrap_.end_step();
  }
  look(/*all=*/true);
  bootstrap_.rest();
  measured.peak_memory_bytes = memory_bytes(device_);
  measured.captured = graph_ && graph_->captured();
  if (profiler_) measured.profiled = profiler_->mean_times();
  return measured;
}

void Trainer::start() {
  const std::string folder = config_.run.folder + "/checkpoints";
  data_fingerprint_ = task_->data_fingerprint();
  const auto resumed = resume(config_, folder, model_, optimizer_, ranks_, data_fingerprint_);
  if (resumed) {
    step_ = resumed->state.step;
    updates_.fill_(static_cast<double>(resumed->state.updates));
  } else if (!config_.checkpoint.initial_weights.empty()) {
    load_initial_weights(config_.checkpoint.initial_weights, model_, ranks_);
  }
  if (!resumed) optimizer_.start_averages();
  first_step_ = step_;
  checkpoints_.emplace(CheckpointWriter::Options{folder, config_.checkpoint.keep, resumed ? step_ : -1,
                                                 resumed ? resumed->rejected : std::vector<int64_t>{}},
                       ranks_);
  const std::string hash = weights_sha256(model_, *mesh_.shard);
  if (resumed && hash != resumed->state.weights_sha256) {
    throw Error(ExitCode::storage, "the weights of step " + std::to_string(step_) + " have the hash " + hash +
                                       ", and their checkpoint says " + resumed->state.weights_sha256);
  }
  if (ranks_.rank != 0) return;
  const auto flops = [](const auto& model) { return modules::flops_per_item(model); };
  metrics_.emplace(Metrics::Options{.folder = config_.run.folder,
                                    .resumed_step = resumed ? step_ : -1,
                                    .last_step = last_step_,
                                    .log_every = config_.log.every,
                                    .item = task_->item_name(),
                                    .flops_per_item = std::visit(flops, config_.model.type) / ranks_.size,
                                    .console = Console::options_from_environment()});
  metrics_->weights(step_, hash);
  if (resumed) metrics_->resumed(resumed->notes);
}

std::unique_ptr<profile::Profiler> Trainer::make_profiler() {
  if (!config_.profile.steps) return nullptr;
  return std::make_unique<profile::Profiler>(profile::Profiler::Options{
      .steps = *config_.profile.steps,
      .folder = config_.run.folder,
      .on_gpu = device_.is_cuda(),
      .device = {bootstrap_.device_name(), ranks_.rank, ranks_.size, profile::peaks_of(bootstrap_.device_name()),
                 profile::work_of_calls(config_, task_->graph_sizes()),
                 /*one_group=*/config_.sharding.strategy != sharding::Strategy::hybrid},
      .gather = ranks_.gather,
      .tell = [this](const std::string& table) { metrics_ ? metrics_->note(table) : void(std::puts(table.c_str())); }});
}

Tensor Trainer::scalar(double value) const {
  return at::scalar_tensor(value, at::TensorOptions(at::kFloat).device(device_));
}

// Each round of micro-batches is one range of samples, split over the ranks: the set is the same for any number of
// them.
std::vector<MicroBatch> Trainer::read_batches(int64_t step) const {
  std::vector<MicroBatch> batches;
  const int64_t first = (step - 1) * config_.batch + ranks_.rank * config_.micro_batch;
  for (int64_t i = 0; i < config_.micro_batches(); ++i) {
    batches.push_back(task_->training_batch(first + i * config_.micro_batch * ranks_.size, config_.micro_batch));
  }
  return batches;
}

void Trainer::next_step() {
  ++step_;
  if (profiler_) profiler_->begin_step(step_, graph_ ? first_step_ + StepGraph::kWarmUpSteps : 0);
  fill_inputs();
  take_step();
  if (profiler_) profiler_->end_step(step_);
}

void Trainer::fill_inputs() {
  sharding::set_position(step_, "data");
  const PhaseTimer::Scope scope(timer_, Phase::data);
  fault_.begin_step(step_);
  inputs_.micro_batches = feed_.next(step_);
  inputs_.learning_rate.fill_(learning_rate(config_.optimizer.learning_rate, config_.schedule, config_.steps, step_));
  inputs_.dropout_key.fill_(
      static_cast<int64_t>(mix(static_cast<uint64_t>(config_.run.seed), static_cast<uint64_t>(step_))));
  inputs_.stop.fill_(sharding::stop_requested_here() ? 1 : 0);
}

void Trainer::take_step() {
  const int64_t since_start = step_ - first_step_;
  const bool captures = graph_ && !graph_->captured() && since_start > StepGraph::kWarmUpSteps;
  // The first step makes what is made once, and the plans of the ranks are compared on the host. The second one finds
  // out in which order memory comes back, and a graph has memory of its own.
  const StrictStep strict(device_, /*may_wait=*/since_start <= 1,
                          /*may_allocate=*/since_start <= 2 || captures || config_.sees_new_graphs());
  try {
    if (!graph_ || since_start <= StepGraph::kWarmUpSteps) {
      run_step();
    } else {
      if (captures) graph_->capture([this] { run_step(); });
      sharding::set_position(step_, "captured step");
      graph_->replay();
    }
    strict.check_allocations();
  } catch (const c10::OutOfMemoryError& error) {
    const std::string request = error.what_without_backtrace();
    throw Error(ExitCode::out_of_memory,
                out_of_memory_report(config_, standing_memory(config_, task_->parameter_table(), task_->graph_sizes()),
                                     device_memory(device_), request.substr(0, request.find(". GPU "))));
  }
  results_.push(step_);
}

void Trainer::run_step() {
  Tensor local_loss;
  for (size_t i = 0; i < inputs_.micro_batches.size(); ++i) {
    Tensor loss;
    {
      sharding::set_position(step_, "forward");
      const PhaseTimer::Scope scope(timer_, Phase::forward);
      // Gathers what is full for the whole step, which profiles count as a part of the forward.
      if (i == 0) model_.begin_step();
      model_.set_last_micro_batch(i + 1 == inputs_.micro_batches.size());
      loss = task_->loss(inputs_.micro_batches[i], loss_scale_, inputs_.dropout_key);
    }
    sharding::set_position(step_, "backward");
    const PhaseTimer::Scope scope(timer_, Phase::backward);
    loss.backward();
    model_.finish_backward();
    local_loss = local_loss.defined() ? local_loss + loss.detach() : loss.detach();
  }
  model_.reshard();
  sharding::set_position(step_, "optimizer");
  const PhaseTimer::Scope scope(timer_, Phase::optimizer);
  update(local_loss);
}

void Trainer::update(const Tensor& local_loss) {
  std::map<at::ScalarType, std::vector<Tensor>> gradients;
  for (auto* group : model_.groups()) gradients[group->gradient().scalar_type()].push_back(group->gradient());
  Tensor squares;
  for (const auto& [type, of_type] : gradients) {
    const Tensor part = kernels::global_norm(of_type, kernels_.global_norm);
    squares = squares.defined() ? squares + part : part;
  }
  // Replicas hold the same gradients: each counts for its share.
  const Tensor sums = at::stack({local_loss, squares / mesh_.replicate->size(), inputs_.stop});
  world_.all_reduce(sums, "loss and gradient norm").wait();

  const Tensor norm = at::sqrt(sums.select(0, 1));
  Tensor skipped = 1 - at::isfinite(norm).to(at::kFloat);
  if (config_.run.on_nonfinite == OnNonfinite::stop) {
    // Nothing moves any more, also where the host sees it a step later.
    skipped = at::maximum(skipped, halted_);
    halted_.copy_(skipped);
  }
  updates_ += 1 - skipped;
  // As torch.nn.utils.clip_grad_norm_ has it.
  const double clip = config_.optimizer.gradient_clip;
  const Tensor scale = clip > 0 ? at::clamp_max(clip / (norm + 1e-6), 1.0) : one_;
  optimizer_.step({inputs_.learning_rate, updates_, scale, skipped});
  results_.values().copy_(at::stack({sums.select(0, 0), norm, sums.select(0, 2), skipped}));
}

void Trainer::look_at_results(bool all) {
  while (const std::optional<StepResult> result = results_.next(all)) look_at(*result);
}

void Trainer::look_at(const StepResult& result) {
  stop_ = stop_ || result.stop > 0;
  const bool skipped = result.skipped > 0;
  const PhaseTimer::Seconds seconds = timer_.take();
  if (metrics_) {
    const double rate = learning_rate(config_.optimizer.learning_rate, config_.schedule, config_.steps, result.step);
    StepRecord record{.step = result.step,
                      .loss = result.loss,
                      .gradient_norm = result.gradient_norm,
                      .learning_rate = static_cast<float>(rate),  // as the update has it
                      .items = config_.batch * task_->items_per_sample(),
                      .milliseconds = 1e3 * std::accumulate(seconds.begin(), seconds.end(), 0.0),
                      .memory_bytes = memory_bytes(device_),
                      .skipped = skipped,
                      .phases = {}};
    // On GPUs the host's clock says nothing about phases: it only queues them.
    for (size_t i = 0; i < seconds.size() && device_.is_cpu(); ++i) {
      record.phases.emplace_back(kPhaseNames[i], 1e3 * seconds[i]);
    }
    metrics_->step(record);
  }
  if (skipped && config_.run.on_nonfinite == OnNonfinite::stop) explain_skipped_update(result.step);
}

void Trainer::evaluate_samples(int64_t samples) {
  sharding::set_position(step_, "evaluation");
  const PhaseTimer::Scope scope(timer_, Phase::evaluation);
  bootstrap_.progress();
  optimizer_.exchange_averages();
  const auto [means, items] =
      evaluate(*task_, model_, world_, config_.micro_batch, samples, [this] { bootstrap_.progress(); });
  optimizer_.exchange_averages();
  tell_bad_samples();  // too many of them: then it does not count
  if (!metrics_) return;
  EvaluationRecord record{step_, {{"validation_loss", means.at(0)}}};
  for (const auto& [name, value] : task_->metrics(means)) record.values.emplace_back(name, value);
  record.values.emplace_back("validation_" + task_->item_name(), static_cast<double>(items));
  metrics_->evaluation(record);
}

bool Trainer::last_step_is_evaluated() const {
  const bool known = metrics_ && metrics_->has_evaluation(last_step_);
  return !bootstrap_.broadcast(known ? "evaluated" : "", 0).empty();
}

void Trainer::tell_bad_samples() {
  bad_samples_.tell_new_ones([&](const std::string& line) { metrics_ ? metrics_->bad_sample(step_, line) : void(); });
}

void Trainer::save() {
  finish_save(/*wait=*/true);
  sharding::set_position(step_, "checkpoint");
  const PhaseTimer::Scope scope(timer_, Phase::checkpoint);
  bootstrap_.progress();
  const RunState state{step_, static_cast<int64_t>(updates_.item<float>()), resolved_, data_fingerprint_,
                       weights_sha256(model_, *mesh_.shard)};
  if (metrics_) metrics_->weights(step_, state.weights_sha256);
  const bool replica = mesh_.replicate->rank() > 0;
  checkpoints_->start_save(step_, pieces_of(model_, optimizer_, /*empty=*/replica), to_text(state));
}

void Trainer::finish_save(bool wait) {
  if (!checkpoints_->in_flight()) return;
  const PhaseTimer::Scope scope(timer_, Phase::checkpoint);
  const std::optional<SaveOutcome> outcome =
      wait ? checkpoints_->finish([this] { bootstrap_.progress(); }) : checkpoints_->try_finish();
  if (!outcome) return;
  if (!outcome->message.empty() && metrics_) metrics_->warn(outcome->message);
  // While the run goes on there will be another save; the last one has to be there.
  if (!outcome->committed && outcome->step == step_ && (step_ == last_step_ || stop_)) {
    throw Error(ExitCode::storage, "the last checkpoint could not be saved: " + outcome->message);
  }
}

// The weights are still those before the step, so the same inputs give the same gradients: look at them before they are
// summed, while they still say whose they are.
void Trainer::explain_skipped_update(int64_t step) {
  if (graph_) graph_->release();  // what the eager step needs besides is more than many a GPU has left
  step_ = step;
  std::vector<std::string> found(1);
  model_.set_before_reduce([&](ShardedParameterGroup& group) {
    fault_.before_reduce(group);
    if (found[0].empty()) found[0] = first_nonfinite(group, ranks_.rank);
  });
  try {
    fill_inputs();
    run_step();
    found = bootstrap_.gather(found[0]);
  } catch (const c10::OutOfMemoryError&) {
    // Nothing is gathered: the other ranks may be in the middle of the step.
    const std::string name = "rank " + std::to_string(ranks_.rank);
    if (found[0].empty()) found[0] = name + ": not found, because no memory is left to run the step again";
  }
  throw nonfinite_error(step_, found);
}

}  // namespace strata::trainer
