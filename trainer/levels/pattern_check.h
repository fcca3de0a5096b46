// SPDX-License-Identifier: MIT
// Checks that the levels of a run take the patterns and the terms of attention of its layers.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "configs/config_errors.h"
#include "kernels/runtime/gpus.h"
#include "trainer/config/load_config.h"

namespace strata::trainer {

// The key that sets the level of an op in a module, and the level. A default level of best counts as aten.
struct ChosenLevel {
  std::string path;
  kernels::Level level;
};
ChosenLevel chosen_level(const modules::KernelsConfig& kernels, const std::string& module, std::string_view key);

// The same for the attention of a layer of a language model.
ChosenLevel chosen_level_of_attention(const modules::KernelsConfig& kernels, int64_t layer);

// The keys of `kernels:` that set a level which does not take pattern or terms of some of its layers, and why not. What
// depends on the GPU is looked at only if one is given.
struct RefusedLevel {
  std::string path, why;
};
std::vector<RefusedLevel> refused_levels_of_attention(const TrainerConfig& config,
                                                      const std::optional<kernels::Gpu>& gpu = {});

// Adds an error at each of their lines.
void add_refused_patterns(const LoadedConfig& loaded, const std::optional<kernels::Gpu>& gpu,
                          configs::ErrorList& errors);

}  // namespace strata::trainer
