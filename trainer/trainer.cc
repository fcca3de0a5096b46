// SPDX-License-Identifier: MIT
#include "trainer/trainer.h"

#include <c10/cuda/CUDAFunctions.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>

#include "modules/config/model_config.h"
#include "sharding/process/failure.h"
#include "trainer/evaluation.h"
#include "trainer/learning_rate.h"
#include "trainer/ledger/run_facts.h"
#include "trainer/memory/device_memory.h"
#include "trainer/report/evaluation_progress.h"
#include "trainer/resume.h"
#include "trainer/start_rank.h"
#include "trainer/tasks/declared_model.h"
#include "trainer/tasks/task_powers.h"
#include "trainer/work_times.h"

namespace strata::trainer {
namespace {

// So many skipped updates in a row end the run, because nothing is learnt any more.
constexpr int64_t kMostSkips = 100;

bool due(int64_t step, int64_t every) { return every > 0 && step % every == 0; }

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Trainer::Trainer(const TrainerConfig& config, const std::string& resolved, sharding::Bootstrap& bootstrap,
                 Rollbacks& rollbacks)
    : config_(config),
      resolved_(resolved),
      bootstrap_(bootstrap),
      rollbacks_(rollbacks),
      ranks_{bootstrap.rank(), bootstrap.ranks(), [this](const std::string& text) { return bootstrap_.gather(text); }},
      step_(config, bootstrap,
            [this](const std::string& table) { metrics_ ? metrics_->note(table) : void(std::puts(table.c_str())); }),
      bad_samples_(dynamic_cast<const FindsBadSamples*>(&step_.task()),
                   [this](const std::string& text) {
                     const PhaseTimer::Scope wait(step_.timer(), Phase::communication, "gather of bad samples");
                     return ranks_.gather(text);
                   }),
      stragglers_(ranks_.size, WorkTimes::phase_names(bootstrap.device())),
      last_step_(config.run.stop_after > 0 ? std::min(config.steps, config.run.stop_after) : config.steps) {
  // One round. A GPU without memory for evaluations beside the captured step is found here, not hours later.
  step_.set_rehearsal([this] {
    evaluation_of(std::min(step_.task().evaluation_samples(), config_.micro_batch * static_cast<int64_t>(ranks_.size)));
  });
}

std::optional<ExitCode> Trainer::train() {
  try {
    return train_and_evaluate();
  } catch (...) {
    // It is reported here, because the destructor of the checkpoint writer waits for a file that is being written. That
    // may take longer than run.timeout, and then another rank would report first that this one did not arrive.
    bootstrap_.pause_watchdog();
    throw ReportedFailure(exit_code_of([]() -> ExitCode { throw; }));
  }
}

std::optional<ExitCode> Trainer::train_and_evaluate() {
  start();
  // After a rollback the watchdog was paused until here.
  bootstrap_.heartbeat();
  if (!is_evaluated()) evaluate_if_due();  // the run that was asked to stop has left this evaluation to this one
  while (step_.number() < last_step_ && !stop_) {
    step_.take();
    const int64_t step = step_.number();
    const bool pauses =
        step == last_step_ || due(step, config_.evaluation.every) || due(step, config_.checkpoint.every);
    read_results(/*all=*/pauses);
    if (stop_) read_results(/*all=*/true);
    if (rolls_back_) {
      prepare_rollback();
      return std::nullopt;
    }
    evaluate_if_due();
    const bool last = step == last_step_ || stop_;
    if (last || pauses || due(step, config_.log.every)) report_bad_samples();
    saves_->finish(/*wait=*/false, last);
    if (last || due(step, config_.checkpoint.every)) saves_->save();
    bootstrap_.end_step();
  }
  saves_->finish(/*wait=*/true, /*is_last=*/true);
  // The evaluation comes after the last checkpoint, so that no training is lost if a long evaluation is cut off, or
  // left because of a stop request. The resumed run then repeats it.
  bool done = step_.number() >= last_step_;
  if (step_.number() == last_step_ && !is_evaluated()) {
    const int64_t samples = step_.task().evaluation_samples();
    if (metrics_) {
      metrics_->note("evaluating all " + std::to_string(samples) + " validation samples after the last step");
    }
    done = evaluate_samples(samples);
  }
  if (step_.profiler() != nullptr) step_.profiler()->finish();
  bootstrap_.pause_watchdog();
  if (metrics_) metrics_->note(metrics_->phase_table());
  return done ? ExitCode::done : ExitCode::preempted;
}

void Trainer::start() {
  const std::string folder = config_.run.folder + "/checkpoints";
  data_fingerprint_ = step_.task().data_fingerprint();
  bootstrap_.require_equal("data", data_fingerprint_);  // otherwise ranks would repeat samples and leave others out
  const FindOptions find{.folder = folder, .required = rollbacks_.needs_checkpoint()};
  const auto [resumed, hash] = begin_run(config_, find, step_, ranks_, data_fingerprint_);
  const int64_t resumed_step = resumed ? step_.number() : -1;
  const int64_t kept_until = resumed || rollbacks_.any() ? step_.number() : -1;  // of the records
  ledger_.emplace(LedgerWriter::Options{.folder = config_.run.folder,
                                        .rank = ranks_.rank,
                                        .resumed_step = kept_until,
                                        .facts = run_facts(config_, data_fingerprint_, bootstrap_.device())},
                  [](const std::string& text) { std::fprintf(stderr, "warning: %s\n", text.c_str()); });
  ledger_->weights(step_.number(), hash);
  if (ranks_.rank == 0) {
    const double flops = modules::flops_per_item(config_.model, declared_model(config_).groups);
    metrics_.emplace(Metrics::Options{.folder = config_.run.folder,
                                      .resumed_step = kept_until,
                                      .last_step = last_step_,
                                      .log_every = config_.log.every,
                                      .item = step_.task().item_name(),
                                      .flops_per_item = flops / ranks_.size,
                                      .console = Console::options_from_environment()});
    metrics_->weights(step_.number(), hash);
    const std::vector<std::string> notes = resumed ? resumed->notes : std::vector<std::string>();
    if (rollbacks_.any()) {
      metrics_->rolled_back(rollbacks_.last_step(), notes);
    } else if (resumed) {
      metrics_->resumed(notes);
    }
  }
  saves_.emplace(RunSaves::Parts{config_, resolved_, data_fingerprint_, bootstrap_, step_, *ledger_,
                                 metrics_ ? &*metrics_ : nullptr},
                 ranks_,
                 CheckpointWriter::Options{.folder = folder,
                                           .keep = config_.checkpoint.keep,
                                           .keep_every = config_.checkpoint.keep_every,
                                           .resumed_step = resumed_step,
                                           .rejected = resumed ? resumed->rejected : std::vector<int64_t>{}});
}

// After the step for which the run goes back, later ones count no more.
void Trainer::read_results(bool all) {
  while (!rolls_back_) {
    const std::optional<StepResult> result = step_.next_result(all);
    if (!result) return;
    handle_result(*result);
  }
}

void Trainer::handle_result(const StepResult& result) {
  const at::Device device = bootstrap_.device();
  stop_ = stop_ || result.stop > 0;
  const bool skipped = result.skipped > 0;
  const PhaseTimer::Seconds seconds = step_.timer().take();
  {
    const PhaseTimer::Scope scope(step_.timer(), Phase::report);
    ledger_->step({.step = result.step,
                   .data = step_.data_hash(result.step),
                   .loss = result.loss,
                   .gradient_norm = result.gradient_norm,
                   .loss_of_rank = result.loss_of_rank,
                   .squares_of_rank = result.squares_of_rank});
  }
  if (metrics_) {
    const PhaseTimer::Scope scope(step_.timer(), Phase::report);
    const double rate = learning_rate(config_.optimizer.learning_rate, config_.schedule, config_.steps, result.step);
    StepRecord record{.step = result.step,
                      .loss = result.loss,
                      .gradient_norm = result.gradient_norm,
                      .learning_rate = static_cast<float>(rate),  // the rate that the update used
                      .items = config_.batch * step_.task().items_per_sample(),
                      .milliseconds = 1e3 * std::accumulate(seconds.begin(), seconds.end(), 0.0),
                      .memory_bytes = memory_bytes(device),
                      .skipped = skipped,
                      .phases = {}};
    // On GPUs the host only queues the phases, so its clock does not measure them.
    for (size_t i = 0; i < seconds.size() && device.is_cpu(); ++i) {
      record.phases.emplace_back(kPhaseNames[i], 1e3 * seconds[i]);
    }
    metrics_->step(record);
    for (const Straggler& straggler : stragglers_.see(record.milliseconds, result.work, seconds_now())) {
      metrics_->straggler(result.step, straggler);
    }
    for (const Spike& spike : spikes_.see(result.loss, result.gradient_norm)) metrics_->spike(result.step, spike);
  }
  if (result.unusable > 0) report_bad_samples();  // at once, because the next line of the console may be far away
  skips_in_a_row_ = skipped ? skips_in_a_row_ + 1 : 0;
  if (skipped) handle_skipped_update(result.step);
}

// A save that is under way has the weights of an earlier step, so it is finished before the run ends or goes back.
void Trainer::handle_skipped_update(int64_t step) {
  const OnNonfinite then = config_.run.on_nonfinite;
  if (then == OnNonfinite::skip && skips_in_a_row_ < kMostSkips) return;
  if (then == OnNonfinite::rollback) {
    saves_->finish(/*wait=*/true, /*is_last=*/false);
    rolls_back_ = rollbacks_.start(step, saves_->has_checkpoint());
    if (rolls_back_) return;
  }
  saves_->finish_before_error();
  if (then != OnNonfinite::skip) step_.explain_skipped_update(step, /*after_rollback=*/then == OnNonfinite::rollback);
  throw Error(
      ExitCode::numerics,
      "step " + std::to_string(step) + ": the last " + std::to_string(kMostSkips) +
          " updates were all skipped, because the loss or a gradient was not finite; run.on_nonfinite=stop names "
          "what is not finite; lower optimizer.learning_rate, or go on from an older checkpoint");
}

// What is queued on a GPU ends before its memory is freed. No step is expected until the next Trainer has started.
void Trainer::prepare_rollback() {
  sharding::set_position(rollbacks_.last_step(), "rollback");
  if (metrics_) {
    metrics_->warn("step " + std::to_string(rollbacks_.last_step()) +
                   ": the loss or a gradient is not finite; the run goes back to " +
                   (saves_->has_checkpoint() ? "its newest checkpoint" : "step 0, because it has no checkpoint yet"));
  }
  if (bootstrap_.device().is_cuda()) c10::cuda::device_synchronize();
  bootstrap_.pause_watchdog();
}

void Trainer::evaluate_if_due() {
  const int64_t step = step_.number();
  if (stop_ || step == 0 || step >= last_step_ || !due(step, config_.evaluation.every)) return;
  const Task& task = step_.task();
  const int64_t wanted = config_.evaluation.tokens / task.items_per_sample();
  stop_ = !evaluate_samples(wanted > 0 ? std::min(wanted, task.evaluation_samples()) : task.evaluation_samples());
}

std::optional<Evaluation> Trainer::evaluation_of(int64_t samples) {
  sharding::set_position(step_.number(), "evaluation");
  bootstrap_.heartbeat();
  EvaluationProgress progress(samples, seconds_now());
  const auto round_is_over = [&] {
    bootstrap_.heartbeat();
    const std::optional<std::string> line = progress.see(config_.micro_batch * ranks_.size, seconds_now());
    if (line && metrics_) metrics_->note(*line);
  };
  step_.optimizer().exchange_averages();
  std::optional<Evaluation> result =
      evaluate(step_.task(), step_.model(), step_.world(), config_.micro_batch, samples, round_is_over);
  step_.optimizer().exchange_averages();
  return result;
}

bool Trainer::evaluate_samples(int64_t samples) {
  const Task& task = step_.task();
  const PhaseTimer::Scope scope(step_.timer(), Phase::evaluation);
  const std::optional<Evaluation> result = evaluation_of(samples);
  report_bad_samples();  // throws if there are too many; the evaluation then does not count
  if (!metrics_) return result.has_value();
  if (!result) {
    metrics_->note("asked to stop: the evaluation after step " + std::to_string(step_.number()) +
                   " is left to the run that resumes this one");
    return false;
  }
  EvaluationRecord record{step_.number(), {{"validation_loss", result->means.at(0)}}};
  for (const auto& [name, value] : task.metrics(result->means)) record.values.emplace_back(name, value);
  record.values.emplace_back("validation_" + task.item_name(), static_cast<double>(result->items));
  metrics_->evaluation(record);
  return true;
}

bool Trainer::is_evaluated() const {
  const bool known = metrics_ && metrics_->has_evaluation(step_.number());
  return !bootstrap_.broadcast(known ? "evaluated" : "", 0).empty();
}

void Trainer::report_bad_samples() {
  try {
    bad_samples_.report_new(
        [&](const std::string& line) { metrics_ ? metrics_->bad_sample(step_.number(), line) : void(); });
  } catch (const Error& error) {
    if (error.code() == ExitCode::data) saves_->finish_before_error();  // all ranks throw it together
    throw;
  }
}

}  // namespace strata::trainer
