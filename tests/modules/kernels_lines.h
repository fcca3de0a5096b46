// SPDX-License-Identifier: MIT
// `kernels:` sections for tests: one with entries for layers, to which entries for modules can be added.
#pragma once

#include <optional>
#include <string>

#include "modules/config/kernels_config.h"

namespace strata::modules {

inline KernelsConfig mixed() {
  using kernels::Level;
  KernelsConfig config;
  config.levels.attention = Level::torchscript;
  config.layers.resize(2);
  config.layers[0].only = {0, 2};
  config.layers[0].levels.rms_norm = Level::torchscript;
  config.layers[1].only = {2, 2};
  config.layers[1].levels.rms_norm = Level::cuda;
  config.layers[1].levels.attention = Level::aten;
  return config;
}

inline void add_line(KernelsConfig& config, const std::string& only, std::optional<kernels::Level> OpLevels::*op,
                     kernels::Level level) {
  config.modules.push_back({.only = only, .levels = {}});
  config.modules.back().levels.*op = level;
}

}  // namespace strata::modules
