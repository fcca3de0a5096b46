// SPDX-License-Identifier: MIT
// Checks that the levels of a run take the patterns, the terms and the heads of attention of its layers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "configs/config_errors.h"
#include "kernels/runtime/gpus.h"
#include "modules/config/kernel_selection.h"
#include "trainer/config/load_config.h"
#include "trainer/levels/run_attention.h"

namespace strata::trainer {

// Returns the key that decides about the attention of a layer, and its level.
modules::ChosenLevel chosen_level_of_attention(const modules::KernelsConfig& kernels, int64_t layer);

// The keys of `kernels:` that set a level which does not take pattern, terms or heads of some of its layers, and why
// not. What depends on the GPU is looked at only if one is given.
struct RefusedLevel {
  std::string path, why;
};
std::vector<RefusedLevel> refused_levels_of_attention(const std::optional<RunAttention>& attention,
                                                      const modules::KernelsConfig& kernels,
                                                      const PrecisionConfig& precision,
                                                      const std::optional<kernels::Gpu>& gpu = {});

// Adds an error at each of their lines.
void add_refused_patterns(const LoadedConfig& loaded, const std::optional<kernels::Gpu>& gpu,
                          configs::ErrorList& errors);

}  // namespace strata::trainer
