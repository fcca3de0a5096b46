// SPDX-License-Identifier: MIT
// The language model of a run, with the weights of one of its checkpoints.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "modules/config/linear_formats_config.h"
#include "modules/config/model_config.h"
#include "trainer/config/load_config.h"

namespace strata::generation {

struct LoadedRun {
  modules::TransformerConfig config;
  modules::LinearFormatsConfig formats;
  std::map<std::string, at::Tensor> weights;  // by name, unsharded and without gradients
};

// Returns the configuration of a run. Throws an Error (configuration) if the folder has none.
trainer::LoadedConfig config_of_run(const std::string& folder);

// Reads the newest checkpoint that is whole, or the one of a step. Prunes its weights as the run does, and rounds them
// to the type of the options. Notes about damaged ones go to stderr.
LoadedRun load_run(const std::string& folder, const trainer::TrainerConfig& config, std::optional<int64_t> step,
                   const at::TensorOptions& options);

}  // namespace strata::generation
