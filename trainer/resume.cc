// SPDX-License-Identifier: MIT
#include "trainer/resume.h"

#include "base/errors.h"
#include "trainer/checkpoint/checkpoint_loader.h"
#include "trainer/config/load_config.h"

namespace strata::trainer {

std::optional<Resumed> resume(const TrainerConfig& config, const std::string& folder, ShardedModel& model,
                              Optimizer& optimizer, const Ranks& ranks, const std::string& data_fingerprint) {
  if (config.checkpoint.resume == Resume::never) return std::nullopt;
  const std::optional<FoundCheckpoint> found = find_checkpoint({.folder = folder}, ranks);
  if (!found && config.checkpoint.resume == Resume::require) {
    throw Error(ExitCode::storage, folder +
                                       ": no checkpoint, and checkpoint.resume is require; name the run.folder to " +
                                       "resume, or start a new run with checkpoint.resume=auto");
  }
  if (!found) return std::nullopt;
  Resumed resumed{parse_run_state(found->manifest.state), found->rejected, found->notes};

  std::string differences;
  for (const std::string& line : differences_that_forbid_resuming(resumed.state.configuration, config)) {
    differences += "\n  " + line;
  }
  if (resumed.state.data != data_fingerprint) {
    differences += "\n  the data: was " + resumed.state.data + ", now " + data_fingerprint;
  }
  if (!differences.empty()) {
    throw Error(ExitCode::configuration, found->path + " was made by another configuration:" + differences +
                                             "\nchange it back, or train in another run.folder");
  }

  load_checkpoint(*found, pieces_of(model, optimizer, /*empty=*/false), ranks);
  for (auto* group : model.groups()) {
    if (group->compute_copy().defined()) group->compute_copy().copy_(group->master());
  }
  return resumed;
}

}  // namespace strata::trainer
