// SPDX-License-Identifier: MIT
// One run, or its part up to a rollback: the loop around its steps, with evaluations, checkpoints and reports.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/errors.h"
#include "base/ranks.h"
#include "sharding/rank_session.h"
#include "trainer/checkpoint/rollbacks.h"
#include "trainer/config/trainer_config.h"
#include "trainer/feed/bad_samples.h"
#include "trainer/ledger/ledger.h"
#include "trainer/replicas/replica_watch.h"
#include "trainer/report/metrics.h"
#include "trainer/report/spike_watch.h"
#include "trainer/report/straggler_watch.h"
#include "trainer/run_evaluations.h"
#include "trainer/run_saves.h"
#include "trainer/step.h"

namespace strata::trainer {

class Trainer {
 public:
  // `resolved` is the configuration as the run's folder stores it. `rollbacks` has the rollbacks of the run so far.
  Trainer(const TrainerConfig& config, const std::string& resolved, sharding::RankSession& session,
          Rollbacks& rollbacks);

  // Trains to the last step, or until it is asked to stop. The exit code reports which. Returns nothing if the run goes
  // back to its newest checkpoint: then destroy this object and train with a new one. Throws ReportedFailure.
  std::optional<ExitCode> train();

 private:
  std::optional<ExitCode> train_and_evaluate();
  void start();
  void read_results(bool all);
  void handle_result(const StepResult& result);
  // Does nothing if run.on_nonfinite is skip and few updates in a row were skipped. Otherwise sets rolls_back_ or
  // throws.
  void handle_skipped_update(int64_t step);
  void prepare_rollback();
  // Throws if replicas differ after `step`. `recorded` is the last step in the ledger.
  void compare_replicas(int64_t step, const std::vector<float>& hashes, int64_t recorded);
  // Evaluates after a step that is not the last one. Sets stop_ if a rank was asked to stop in the meantime.
  void evaluate_if_due();
  void report_bad_samples();

  const TrainerConfig& config_;
  const std::string& resolved_;
  sharding::RankSession& session_;
  Rollbacks& rollbacks_;
  const Ranks ranks_;
  Step step_;
  ReplicaWatch replicas_;
  BadSamples bad_samples_;
  std::string data_fingerprint_;        // set by start()
  std::optional<LedgerWriter> ledger_;  // set by start(), as what follows
  std::optional<Metrics> metrics_;      // on rank 0
  std::optional<RunSaves> saves_;
  RunEvaluations evaluations_;
  StragglerWatch stragglers_;  // used on rank 0, as the next one
  SpikeWatch spikes_;
  const int64_t last_step_;
  bool stop_ = false, rolls_back_ = false;
  int64_t skips_in_a_row_ = 0;  // steps without an update
};

}  // namespace strata::trainer
