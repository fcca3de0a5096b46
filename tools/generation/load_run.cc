// SPDX-License-Identifier: MIT
#include "tools/generation/load_run.h"

#include <ATen/ops/empty.h>

#include <cstdio>
#include <filesystem>
#include <variant>
#include <vector>

#include "base/errors.h"
#include "base/ranks.h"
#include "trainer/checkpoint/checkpoint_loader.h"
#include "trainer/config/load_config.h"
#include "trainer/tasks/declared_model.h"

namespace strata::generation {
namespace {

std::map<std::string, at::Tensor> load_weights(const modules::TransformerConfig& config,
                                               const trainer::FoundCheckpoint& found,
                                               const at::TensorOptions& options) {
  std::map<std::string, at::Tensor> weights;
  std::vector<trainer::TensorPiece> pieces;
  for (const auto& group : trainer::declared_groups({.type = config})) {
    for (const auto& parameter : group.parameters) {
      const at::Tensor flat = at::empty({parameter.elements()}, options.dtype(at::kFloat));
      pieces.push_back({parameter.name + best_weights(found.manifest), parameter.shape, 0, flat});
      weights[parameter.name] = flat.view(parameter.shape);
    }
  }
  read_pieces(found, pieces);
  pieces.clear();  // so that each tensor is freed when it is rounded
  for (auto& [name, weight] : weights) weight = weight.to(options);
  return weights;
}

const modules::TransformerConfig& language_model(const modules::ModelConfig& any) {
  const auto* model = std::get_if<modules::TransformerConfig>(&any.type);
  if (model) return *model;
  throw Error(ExitCode::configuration, "samples come from language models, and this run trains a model of type " +
                                           std::string(modules::ModelConfig::kTypes.at(any.type.index())));
}

void require_run(const std::string& folder) {
  const std::string resolved = folder + "/resolved.yaml";
  if (std::filesystem::exists(resolved)) return;
  throw Error(ExitCode::configuration, folder + " is not the folder of a run: there is no " + resolved);
}

}  // namespace

LoadedRun load_run(const std::string& folder, std::optional<int64_t> step, const at::TensorOptions& options) {
  require_run(folder);
  const trainer::TrainerConfig config = trainer::load_trainer_config(folder + "/resolved.yaml", {}).config;
  const modules::TransformerConfig& model = language_model(config.model);
  const auto found =
      trainer::find_checkpoint({.folder = folder + "/checkpoints", .required = true, .step = step}, Ranks{});
  for (const std::string& note : found->notes) std::fprintf(stderr, "warning: %s\n", note.c_str());
  return {model, config.precision.linear, load_weights(model, *found, options)};
}

}  // namespace strata::generation
