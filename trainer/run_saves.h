// SPDX-License-Identifier: MIT
// The saves of a run: what goes into a checkpoint, what the metrics and the ledger say of it, and what a failure means.
#pragma once

#include <string>
#include <vector>

#include "base/ranks.h"
#include "sharding/rank_session.h"
#include "trainer/checkpoint/checkpoint_config.h"
#include "trainer/checkpoint/checkpoint_writer.h"
#include "trainer/ledger/ledger.h"
#include "trainer/report/metrics.h"
#include "trainer/step.h"

namespace strata::trainer {

class RunSaves {
 public:
  // The objects that a save reads and reports to. All of them must outlive this object.
  struct Parts {
    const CheckpointConfig& checkpoint;
    const std::string& resolved;  // the configuration as the run's folder stores it
    const std::string& data_fingerprint;
    sharding::RankSession& session;
    Step& step;
    LedgerWriter& ledger;
    Metrics* metrics;  // null on all ranks but rank 0
  };
  RunSaves(const Parts& parts, const Ranks& ranks, const CheckpointWriter::Options& options);

  bool has_checkpoint() const { return writer_.has_checkpoint(); }

  // The methods below are collective.
  // Starts a save of the present step. Waits for the save before, if that is not on the disk yet.
  void save();
  // Checks whether the save under way is on the disk or, with `wait`, waits until it is. A failed save is only a
  // warning, because there will be another save. If it is the last one of the run, its failure is thrown.
  void finish(bool wait, bool is_last);
  // Call it before all ranks throw together: a save that fails is only a warning then.
  void finish_before_error();

 private:
  std::vector<TensorPiece> pieces() const;

  const Parts parts_;
  CheckpointWriter writer_;
};

}  // namespace strata::trainer
