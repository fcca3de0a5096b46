// SPDX-License-Identifier: MIT
// A replay of one run on this rank: it trains from a checkpoint up to a step again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ranks.h"
#include "sharding/rank_session.h"
#include "tools/replay/request.h"
#include "trainer/config/load_config.h"
#include "trainer/ledger/ledger.h"
#include "trainer/ledger/step_observer.h"

namespace strata::tools {

class Replay {
 public:
  // Finds the step and the checkpoint on rank 0. A step that was not recorded is an Error (storage) before anything is
  // trained. Collective.
  Replay(const Request& request, sharding::RankSession& session);

  // Trains up to the step, and returns the ledger of this rank as it is stored. `observer` may be null. It is armed
  // before the last step.
  std::string train(trainer::TrainerConfig config, trainer::StepObserver* observer) const;

  // Prints on rank 0.
  void say(const std::string& text) const;

  int64_t step() const { return step_; }
  int64_t from() const { return from_; }
  const std::string& folder() const { return request_.run; }
  const Ranks& ranks() const { return ranks_; }
  sharding::RankSession& session() const { return session_; }
  const std::vector<trainer::Ledger>& recorded() const { return recorded_; }  // of the run, on rank 0

 private:
  std::string checkpoints() const { return request_.run + "/checkpoints"; }
  int64_t find_step();
  int64_t find_start() const;

  const Request& request_;
  sharding::RankSession& session_;
  const Ranks ranks_;
  std::vector<trainer::Ledger> recorded_;
  const int64_t step_;  // the last step
  const int64_t from_;  // the step after which the replay begins
};

// True if loss and gradient norm are finite.
bool is_finite(const trainer::LedgerStep& step);

// Returns the first step of the last unbroken series of steps that were not finite. A series may be a single step.
// Steps that loss scaling skipped do not count. Returns nothing if there is no such step.
std::optional<int64_t> step_that_was_not_finite(const trainer::Ledger& ledger);

}  // namespace strata::tools
