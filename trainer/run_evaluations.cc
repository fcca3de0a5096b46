// SPDX-License-Identifier: MIT
#include "trainer/run_evaluations.h"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "base/steady_seconds.h"
#include "sharding/process/failure.h"
#include "trainer/report/evaluation_progress.h"

namespace strata::trainer {

void RunEvaluations::rehearse() {
  evaluation_of(std::min(parts_.step.task().evaluation_samples(), parts_.config.global_micro_batch()));
}

bool RunEvaluations::between_steps() { return evaluate_and_report(samples_of(parts_.config.evaluation.tokens)); }

bool RunEvaluations::after_last_step() {
  const int64_t all_samples = parts_.step.task().evaluation_samples();
  const int64_t samples = samples_of(parts_.config.evaluation.final_tokens);
  if (metrics() != nullptr) {
    const std::string counted = samples < all_samples ? std::to_string(samples) + " of " : "all ";
    metrics()->note("evaluating " + counted + std::to_string(all_samples) + " validation samples after the last step");
  }
  return evaluate_and_report(samples);
}

bool RunEvaluations::has_result() const {
  const bool is_recorded = metrics() != nullptr && metrics()->has_evaluation(parts_.step.number());
  return !parts_.session.broadcast(is_recorded ? "evaluated" : "", 0).empty();
}

std::optional<RunEvaluations::Result> RunEvaluations::evaluation_of(int64_t samples) {
  Step& step = parts_.step;
  sharding::RankSession& session = parts_.session;
  sharding::set_position(step.number(), "evaluation");
  session.heartbeat();
  EvaluationProgress progress(samples, steady_seconds());
  const auto round_is_over = [&] {
    session.heartbeat();
    const std::optional<std::string> line = progress.add(parts_.config.global_micro_batch(), steady_seconds());
    if (line && metrics() != nullptr) metrics()->note(*line);
  };
  step.optimizer().exchange_averages();
  std::optional<Result> result;
  if (auto found = evaluate(step.task(), step.model(), step.world(), parts_.config, samples, round_is_over)) {
    result = Result{std::move(*found), {}};
    const int64_t shown_count = std::min(parts_.config.evaluation.samples, samples);
    if (shown_count > 0 && shows_ != nullptr) {
      result->shown = shown_samples(step.task(), *shows_, step.model(), step.world(), parts_.config, shown_count,
                                    [&] { session.heartbeat(); });
    }
  }
  step.optimizer().exchange_averages();
  return result;
}

bool RunEvaluations::evaluate_and_report(int64_t samples) {
  Step& step = parts_.step;
  const PhaseTimer::Scope scope(step.timer(), Phase::evaluation);
  std::optional<Result> result;
  step.with_memory_report([&] { result = evaluation_of(samples); });
  parts_.report_bad_samples();
  if (metrics() == nullptr) return result.has_value();
  if (!result) {
    metrics()->note("asked to stop: the evaluation after step " + std::to_string(step.number()) +
                    " is left to the run that resumes this one");
    return false;
  }
  if (result->shown.defined()) report_shown(result->shown);
  const auto& [means, items] = result->evaluation;
  EvaluationRecord record{step.number(), {{"validation_loss", means.at(0)}}};
  for (const auto& [name, value] : step.task().metrics(means)) record.values.emplace_back(name, value);
  record.values.emplace_back("validation_" + step.task().item_name(), static_cast<double>(items));
  metrics()->record_evaluation(record);
  return true;
}

void RunEvaluations::report_shown(const Tensor& shown) {
  const std::vector<std::string> names = shows_->shown_names();
  const auto items = static_cast<size_t>(shown.size(2));
  const double* values = shown.const_data_ptr<double>();
  for (int64_t sample = 0; sample < shown.size(0); ++sample) {
    std::vector<SampleRecord::List> lists;
    for (const std::string& name : names)
      lists.emplace_back(name, std::span(std::exchange(values, values + items), items));
    metrics()->record_sample({parts_.step.number(), sample, std::move(lists)});
  }
}

int64_t RunEvaluations::samples_of(int64_t tokens) const {
  const Task& task = parts_.step.task();
  const int64_t all_samples = task.evaluation_samples(), wanted_samples = tokens / task.items_per_sample();
  return wanted_samples > 0 ? std::min(wanted_samples, all_samples) : all_samples;
}

}  // namespace strata::trainer
