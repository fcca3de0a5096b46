// SPDX-License-Identifier: MIT
// Resumes from the newest good checkpoint, or reports why it cannot.
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
  std::vector<std::string> notes;  // a sentence for each of these steps
};

// Fills masters, compute copies and moments. Returns nothing if there is no checkpoint and checkpoint.resume allows
// that. Throws Error (configuration) if the data or the configuration of the checkpoint differ. The keys that may
// differ are listed in trainer/config/load_config.cc. Collective.
std::optional<Resumed> resume(const TrainerConfig& config, const std::string& folder, ShardedModel& model,
                              Optimizer& optimizer, const Ranks& ranks, const std::string& data_fingerprint);

}  // namespace strata::trainer
