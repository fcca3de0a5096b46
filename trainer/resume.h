// SPDX-License-Identifier: MIT
// Brings a run to the state in which its next step begins, from a checkpoint or as a new run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/ranks.h"
#include "trainer/checkpoint/checkpoint_loader.h"
#include "trainer/config/trainer_config.h"
#include "trainer/run_state.h"
#include "trainer/step.h"

namespace strata::trainer {

struct Resumed {
  RunState state;
  std::vector<int64_t> rejected;   // steps of newer checkpoints that are damaged
  std::vector<std::string> notes;  // a sentence for each rejected checkpoint
};

struct Beginning {
  std::optional<Resumed> resumed;  // nothing: a new run
  std::string weights_sha256;
  std::string note;  // a sentence about the initial weights, or ""
};

// Fills masters, compute copies and moments from the checkpoint that `from` finds, or with the initial weights if there
// is none and checkpoint.resume allows that. Throws Error (configuration) if the data or the configuration of the
// checkpoint differ. The keys that may differ are listed in trainer/config/load_config.cc. Collective.
Beginning begin_run(const TrainerConfig& config, const FindOptions& from, Step& step, const Ranks& ranks,
                    const std::string& data_fingerprint);

}  // namespace strata::trainer
