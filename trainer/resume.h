// SPDX-License-Identifier: MIT
// Goes on from the newest good checkpoint, or says why it cannot.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/ranks.h"
#include "trainer/config/trainer_config.h"
#include "trainer/run_state.h"

namespace strata::trainer {

struct Resumed {
  RunState state;
  std::vector<int64_t> rejected;   // steps of newer checkpoints that are damaged
  std::vector<std::string> notes;  // a sentence for each of them
};

// Fills masters, compute copies and moments. Nothing when there is nothing to go on from and checkpoint.resume allows
// that. Throws Error (configuration) when the checkpoint was made with another configuration: only run, checkpoint,
// evaluation, log and profile may differ. Collective.
std::optional<Resumed> resume(const TrainerConfig& config, const std::string& folder, ShardedModel& model,
                              Optimizer& optimizer, const Ranks& ranks, const std::string& data_fingerprint);

}  // namespace strata::trainer
