// SPDX-License-Identifier: MIT
// The evaluations of a run: how many samples they have, and what is reported of them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "sharding/rank_session.h"
#include "trainer/config/trainer_config.h"
#include "trainer/evaluation.h"
#include "trainer/report/metrics.h"
#include "trainer/step.h"
#include "trainer/tasks/task_powers.h"

namespace strata::trainer {

class RunEvaluations {
 public:
  // The parts must outlive this object. `metrics` is empty on other ranks than 0.
  struct Parts {
    const TrainerConfig& config;
    sharding::RankSession& session;
    Step& step;
    std::optional<Metrics>& metrics;
    std::function<void()> report_bad_samples;  // throws if there are too many; the evaluation then does not count
  };
  explicit RunEvaluations(Parts parts)
      : parts_(std::move(parts)), shows_(dynamic_cast<const ShowsSamples*>(&parts_.step.task())) {}

  // All methods are collective, and evaluate the weights of the present step.
  // Evaluates one round of micro-batches and reports nothing. A GPU without memory for evaluations fails here.
  void rehearse();
  // These evaluate evaluation.tokens and evaluation.final_tokens of the validation data. They return false if a rank
  // was asked to stop in the meantime: the evaluation then has no result.
  bool between_steps();
  bool after_last_step();
  // Returns true if metrics.jsonl has an evaluation of the present step.
  bool has_result() const;

 private:
  struct Result {
    Evaluation evaluation;
    Tensor shown;  // see shown_samples(); undefined if none are asked for
  };
  std::optional<Result> evaluation_of(int64_t samples);
  void report_shown(const Tensor& shown);
  bool evaluate_and_report(int64_t samples);
  int64_t samples_of(int64_t tokens) const;  // 0: all
  Metrics* metrics() const { return parts_.metrics ? &*parts_.metrics : nullptr; }

  const Parts parts_;
  const ShowsSamples* const shows_;  // null: the task shows no samples
};

}  // namespace strata::trainer
