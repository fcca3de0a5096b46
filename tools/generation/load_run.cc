// SPDX-License-Identifier: MIT
#include "tools/generation/load_run.h"

#include <filesystem>
#include <variant>

#include "base/errors.h"
#include "tools/weights/checkpoint_weights.h"
#include "tools/weights/pruned_weights.h"
#include "trainer/tasks/declared_model.h"

namespace strata::generation {
namespace {

const modules::TransformerConfig& language_model(const modules::ModelConfig& any) {
  const auto* model = std::get_if<modules::TransformerConfig>(&any.type);
  if (model) return *model;
  throw Error(ExitCode::configuration,
              "samples come from language models, and this run trains a model of type " + any.type_name());
}

void require_run(const std::string& folder) {
  const std::string resolved = folder + "/resolved.yaml";
  if (std::filesystem::exists(resolved)) return;
  throw Error(ExitCode::configuration, folder + " is not the folder of a run: there is no " + resolved);
}

}  // namespace

trainer::LoadedConfig config_of_run(const std::string& folder) {
  require_run(folder);
  return trainer::load_trainer_config(folder + "/resolved.yaml", {});
}

LoadedRun load_run(const std::string& folder, const trainer::TrainerConfig& config, std::optional<int64_t> step,
                   const at::TensorOptions& options) {
  const modules::TransformerConfig& model = language_model(config.model);
  const trainer::FoundCheckpoint found = tools::checkpoint_of_run(folder, step);
  const auto type_of = [&](const std::string&) { return c10::typeMetaToScalarType(options.dtype()); };
  return {model, config.precision.linear,
          tools::read_weights(found, trainer::declared_groups(config.model), options.device(), type_of,
                              tools::PrunedWeights(config, found.manifest.step))};
}

}  // namespace strata::generation
