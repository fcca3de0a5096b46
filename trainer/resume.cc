// SPDX-License-Identifier: MIT
#include "trainer/resume.h"

#include <set>

#include "base/errors.h"
#include "base/text/joined.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/checkpoint/weights_differences.h"
#include "trainer/checkpoint/weights_folder.h"
#include "trainer/config/load_config.h"
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

Shapes shapes_of(const WeightsFolder& folder) {
  Shapes shapes;
  for (const std::string& name : folder.names()) shapes.emplace_back(name, folder.find(name)->shape);
  return shapes;
}

Shapes shapes_of(const ShardedModel& model) {
  Shapes shapes;
  for (const auto* group : model.groups()) {
    for (const sharding::FlatLayout::Entry& entry : group->layout().entries())
      shapes.emplace_back(entry.name, entry.shape);
  }
  return shapes;
}

// Returns the types of the weights that are no float32, such as "BF16 and F16", or "".
std::string types_of_16_bits(const WeightsFolder& folder) {
  std::set<std::string> types;
  for (const std::string& name : folder.names()) types.insert(folder.find(name)->dtype);
  types.erase("F32");
  return joined(types, " and ");
}

// Fills masters and compute copies from a folder of weights with Strata's names. Each rank reads only its shards.
// Returns a sentence if the weights have 16 bits and masters have more, otherwise "". Throws Error (configuration) with
// all differences if the model has other parameters. Collective.
std::string load_initial_weights(const std::string& path, ShardedModel& model, const Ranks& ranks) {
  // Masters are float32, so no value changes.
  std::string types;
  gather_results(ranks, [&] {
    const WeightsFolder folder(path);
    const std::string problem = weights_differences(shapes_of(folder), shapes_of(model));
    if (!problem.empty()) {
      throw Error(ExitCode::configuration, "checkpoint.initial_weights " + path + " does not fit the model:" + problem +
                                               "\nfolders of Hugging Face are converted by: tools/strata import");
    }
    for (auto* group : model.groups()) {
      const at::Tensor shard = group->master().cpu();
      group->for_each_piece(
          [&](const sharding::FlatLayout::Entry& entry, int64_t parameter_offset, int64_t shard_offset, int64_t count) {
            shard.narrow(0, shard_offset, count).copy_(folder.read(entry.name, parameter_offset, count));
          });
      group->master().copy_(shard);
      if (group->compute_copy().defined()) group->compute_copy().copy_(shard);
    }
    types = types_of_16_bits(folder);
    return std::string();
  });
  return types.empty()
             ? ""
             : "checkpoint.initial_weights: weights of " + types + " become float32 masters, and no value changes";
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
