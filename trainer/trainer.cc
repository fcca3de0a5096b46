// SPDX-License-Identifier: MIT
#include "trainer/trainer.h"

#include <c10/cuda/CUDAFunctions.h>

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "base/steady_seconds.h"
#include "modules/config/model_config.h"
#include "sharding/process/failure.h"
#include "sharding/process/gpu_watch.h"
#include "trainer/ledger/run_facts.h"
#include "trainer/memory/device_memory.h"
#include "trainer/resume.h"
#include "trainer/start_rank.h"
#include "trainer/step/learning_rate.h"
#include "trainer/step/nonfinite_gradient.h"
#include "trainer/step/work_times.h"
#include "trainer/tasks/declared_model.h"
#include "trainer/tasks/task_powers.h"

namespace strata::trainer {
namespace {

// Number of skipped updates in a row that ends the run, because nothing is learnt any more.
constexpr int64_t kMostSkips = 100;

bool due(int64_t step, int64_t every) { return every > 0 && step % every == 0; }

// Empty on GPUs: the host only queues the phases there, so its clock does not measure them.
Scalars milliseconds_of(const PhaseTimer::Seconds& seconds, at::Device device) {
  Scalars phases;
  for (size_t i = 0; i < seconds.size() && device.is_cpu(); ++i) phases.emplace_back(kPhaseNames[i], 1e3 * seconds[i]);
  return phases;
}

}  // namespace

Trainer::Trainer(const TrainerConfig& config, const std::string& resolved, sharding::RankSession& session,
                 Rollbacks& rollbacks)
    : config_(config),
      resolved_(resolved),
      session_(session),
      rollbacks_(rollbacks),
      ranks_{session.rank(), session.ranks(), [this](const std::string& text) { return session_.gather(text); }},
      step_(config, session,
            [this](const std::string& table) { metrics_ ? metrics_->note(table) : void(std::puts(table.c_str())); }),
      replicas_(ranks_.size, step_.mesh().shard->size(), config.run.folder),
      bad_samples_(dynamic_cast<const FindsBadSamples*>(&step_.task()),
                   [this](const std::string& text) {
                     const PhaseTimer::Scope wait(step_.timer(), Phase::communication, "gather of bad samples");
                     return ranks_.gather(text);
                   }),
      evaluations_({.config = config,
                    .session = session_,
                    .step = step_,
                    .metrics = metrics_,
                    .report_bad_samples = [this] { report_bad_samples(); }}),
      stragglers_(ranks_.size, WorkTimes::phase_names(session.device())),
      last_step_(config.run.stop_after > 0 ? std::min(config.steps, config.run.stop_after) : config.steps) {
  step_.set_rehearsal([this] { evaluations_.rehearse(); });
}

std::optional<ExitCode> Trainer::train() {
  try {
    return train_and_evaluate();
  } catch (...) {
    // It is reported here, because destructors may wait for a file that is being written, or for a GPU that hangs. That
    // may take longer than run.timeout, and then another rank would report first that this one did not arrive.
    session_.pause_watchdog();
    if (session_.device().is_cuda()) session_.gpu_watch().end_run_if_gpu_failed();
    const int exit_code = exit_code_of([]() -> ExitCode { throw; });
    session_.end_soon(exit_code);
    throw ReportedFailure(exit_code);
  }
}

std::optional<ExitCode> Trainer::train_and_evaluate() {
  start();
  session_.heartbeat();                               // the watchdog was paused if this follows a rollback
  if (!evaluations_.has_result()) evaluate_if_due();  // a request to stop may have cut it off before this start
  while (step_.number() < last_step_ && !stop_) {
    step_.queue_next();
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
    if (last || due(step, config_.checkpoint.every)) {
      compare_replicas(step, step_.exchange_hashes(), step);
      saves_->save();
    }
    session_.end_step();
  }
  saves_->finish(/*wait=*/true, /*is_last=*/true);
  // The evaluation comes after the last checkpoint, so that no training is lost if a long evaluation is cut off, or
  // left because of a stop request. The resumed run then repeats it.
  bool done = step_.number() >= last_step_;
  if (step_.number() == last_step_ && !evaluations_.has_result()) done = evaluations_.after_last_step();
  if (step_.profiler() != nullptr) step_.profiler()->finish();
  session_.pause_watchdog();
  if (metrics_) {
    metrics_->record_last_phases(milliseconds_of(step_.timer().take(), session_.device()));
    metrics_->note(metrics_->phase_table());
  }
  return done ? ExitCode::done : ExitCode::preempted;
}

void Trainer::start() {
  const std::string folder = config_.run.folder + "/checkpoints";
  data_fingerprint_ = step_.task().data_fingerprint();
  session_.require_equal("data", data_fingerprint_);  // otherwise ranks would repeat samples and leave others out
  const FindOptions find{.folder = folder, .required = rollbacks_.needs_checkpoint()};
  const auto [resumed, hash, initial_note] = begin_run(config_, find, step_, ranks_, data_fingerprint_);
  const int64_t resumed_step = resumed ? step_.number() : -1;
  const int64_t kept_until = resumed || rollbacks_.any() ? step_.number() : -1;  // last step whose records are kept
  const Facts facts = run_facts(config_, data_fingerprint_, session_.device());
  ledger_.emplace(
      LedgerWriter::Options{
          .folder = config_.run.folder, .rank = ranks_.rank, .resumed_step = kept_until, .facts = facts},
      [](const std::string& text) { std::fprintf(stderr, "warning: %s\n", text.c_str()); });
  ledger_->weights(step_.number(), hash);
  if (ranks_.rank == 0) {
    const double flops =
        modules::flops_per_item(config_.model, declared_model(config_).groups, document_lengths(step_.task()));
    metrics_.emplace(Metrics::Options{.folder = config_.run.folder,
                                      .resumed_step = kept_until,
                                      .last_step = last_step_,
                                      .log_every = config_.log.every,
                                      .item = step_.task().item_name(),
                                      .flops_per_item = flops / ranks_.size,
                                      .console = Console::options_from_environment()});
    metrics_->record_weights(step_.number(), hash);
    if (!initial_note.empty()) metrics_->note(initial_note);
    const std::vector<std::string> notes = resumed ? resumed->notes : std::vector<std::string>();
    if (rollbacks_.any()) {
      metrics_->record_rollback(rollbacks_.last_step(), notes);
    } else if (resumed) {
      metrics_->record_resume(notes);
    }
  }
  saves_.emplace(RunSaves::Parts{config_.checkpoint, resolved_, data_fingerprint_, session_, step_, *ledger_,
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
  std::optional<StepResult> result;
  while (!rolls_back_ && (result = step_.next_result(all))) handle_result(*result);
}

void Trainer::handle_result(const StepResult& result) {
  stop_ = stop_ || result.stop > 0;
  const bool skipped = result.skipped > 0, overflowed = result.overflowed > 0;
  const PhaseTimer::Seconds seconds = step_.timer().take();
  {
    const PhaseTimer::Scope scope(step_.timer(), Phase::report);
    ledger_->step({.step = result.step,
                   .data = step_.data_hash(result.step),
                   .loss = result.loss,
                   .gradient_norm = result.gradient_norm,
                   .loss_of_rank = result.loss_of_rank,
                   .squares_of_rank = result.squares_of_rank,
                   .overflowed = overflowed});
  }
  if (metrics_) {
    const PhaseTimer::Scope scope(step_.timer(), Phase::report);
    const double rate = learning_rate(config_.optimizer.learning_rate, config_.schedule, config_.steps, result.step);
    const StepRecord record{
        .step = result.step,
        .loss = result.loss,
        .gradient_norm = result.gradient_norm,
        .learning_rate = static_cast<float>(rate),  // the rate that the update used
        .items = step_.items().number,
        .milliseconds = 1e3 * std::accumulate(seconds.begin(), seconds.end(), 0.0),
        .memory_bytes = memory_bytes(session_.device()),
        .skipped = skipped,
        .loss_scale = config_.precision.scales_loss() ? std::optional(result.loss_scale) : std::nullopt,
        .phases = milliseconds_of(seconds, session_.device())};
    metrics_->record_step(record);
    for (const Straggler& straggler : stragglers_.add(record.milliseconds, result.work, steady_seconds())) {
      metrics_->record_straggler(result.step, straggler);
    }
    for (const Spike& spike : spikes_.add(result.loss, result.gradient_norm))
      metrics_->record_spike(result.step, spike);
  }
  if (step_.compares_replicas(result.step)) compare_replicas(result.step - 1, result.hashes, result.step);
  if (result.unusable > 0) report_bad_samples();  // at once, because the next line of the console may be far away
  const bool not_finite = skipped && !overflowed;
  skips_in_a_row_ = not_finite ? skips_in_a_row_ + 1 : 0;
  if (not_finite) handle_skipped_update(result.step);
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
  if (then != OnNonfinite::skip) step_.explain_skipped_update(step);
  throw skipped_too_often_error(step, kMostSkips);
}

// Reports the rollback, and waits for the GPU, because memory that its queued work uses is freed next. The watchdog
// expects no step until the next Trainer has started.
void Trainer::prepare_rollback() {
  sharding::set_position(rollbacks_.last_step(), "rollback");
  if (metrics_) metrics_->warn(rollbacks_.warning());
  if (session_.device().is_cuda()) c10::cuda::device_synchronize();
  session_.pause_watchdog();
}

void Trainer::compare_replicas(int64_t step, const std::vector<float>& hashes, int64_t recorded) {
  if (hashes.empty()) return;
  const std::string difference = replicas_.add(step, hashes, recorded);
  if (difference.empty()) return;
  saves_->finish_before_error();  // replicas were equal before that save
  throw Error(ExitCode::numerics, difference);
}

void Trainer::evaluate_if_due() {
  const int64_t step = step_.number();
  if (stop_ || step == 0 || step >= last_step_ || !due(step, config_.evaluation.every)) return;
  stop_ = !evaluations_.between_steps();
}

void Trainer::report_bad_samples() {
  try {
    bad_samples_.report_new(
        [&](const std::string& line) { metrics_ ? metrics_->record_bad_sample(step_.number(), line) : void(); });
  } catch (const Error& error) {
    if (error.code() == ExitCode::data) saves_->finish_before_error();  // all ranks throw it together
    throw;
  }
}

}  // namespace strata::trainer
