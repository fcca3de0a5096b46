// SPDX-License-Identifier: MIT
#include "trainer/resume.h"

#include "base/errors.h"
#include "trainer/config/load_config.h"
#include "trainer/initial_weights.h"
#include "trainer/weights_hash.h"

namespace strata::trainer {
namespace {

std::optional<Resumed> resume(const TrainerConfig& config, const FindOptions& from, Step& step, const Ranks& ranks,
                              const std::string& data_fingerprint) {
  if (config.checkpoint.resume == Resume::never) return std::nullopt;
  const std::optional<FoundCheckpoint> found = find_checkpoint(from, ranks);
  if (!found && config.checkpoint.resume == Resume::require) {
    throw Error(ExitCode::storage, from.folder +
                                       ": no checkpoint, and checkpoint.resume is require; name the run.folder to " +
                                       "resume, or start a new run with checkpoint.resume=auto");
  }
  if (!found) return std::nullopt;
  Resumed resumed{parse_run_state(found->manifest.state), found->rejected, found->notes};

  std::string differences;
  for (const std::string& line :
       differences_that_forbid_resuming(resumed.state.configuration, config, resumed.state.step)) {
    differences += "\n  " + line;
  }
  if (resumed.state.data != data_fingerprint) {
    differences += "\n  the data: was " + resumed.state.data + ", now " + data_fingerprint;
  }
  if (!differences.empty()) {
    throw Error(ExitCode::configuration, found->path + " was made by another configuration:" + differences +
                                             "\nchange it back, or train in another run.folder");
  }

  load_checkpoint(*found, pieces_of(step.model(), step.optimizer(), /*empty=*/false), ranks);
  for (auto* group : step.model().groups()) {
    if (group->compute_copy().defined()) group->compute_copy().copy_(group->master());
  }
  step.model().amax_history().share();
  step.resume_after(resumed.state.step, resumed.state.updates, resumed.state.loss_scale);
  return resumed;
}

}  // namespace

Beginning begin_run(const TrainerConfig& config, const FindOptions& from, Step& step, const Ranks& ranks,
                    const std::string& data_fingerprint) {
  Beginning beginning{resume(config, from, step, ranks, data_fingerprint), "", ""};
  if (!beginning.resumed) {
    if (const std::string& folder = config.checkpoint.initial_weights; !folder.empty()) {
      beginning.note = load_initial_weights(folder, step.model(), ranks);
    }
    step.optimizer().start_averages();
  }
  beginning.weights_sha256 = weights_sha256(step.model(), *step.mesh().shard);
  if (beginning.resumed && beginning.weights_sha256 != beginning.resumed->state.weights_sha256) {
    throw Error(ExitCode::storage, "the weights of step " + std::to_string(step.number()) + " have the hash " +
                                       beginning.weights_sha256 + ", and their checkpoint says " +
                                       beginning.resumed->state.weights_sha256);
  }
  return beginning;
}

}  // namespace strata::trainer
