// SPDX-License-Identifier: MIT
#include "modules/config/kernel_selection.h"

#include <algorithm>

#include "base/errors.h"
#include "modules/config/module_name.h"

namespace strata::modules {

ChosenLevel chosen_level(const KernelsConfig& config, std::string_view module, std::string_view op) {
  if (config.levels.find(op) == nullptr) {
    throw Error(ExitCode::internal,
                "a module asks for the level of '" + std::string(op) + "', which is no key of `kernels:`");
  }
  // linear_cross_entropy is not a level of head and loss but another way to compute them. Only its own key selects it;
  // kernels.default does not.
  ChosenLevel last = {"kernels.default", {}};
  if (op != "linear_cross_entropy") last.level = config.default_level;
  for_each_line(config, module, [&](const std::string& prefix, const OpLevels& levels) {
    if (const auto& level = *levels.find(op)) last = {prefix + std::string(op), level};
  });
  return last;
}

kernels::Level level_for(const KernelsConfig& config, std::string_view module, std::string_view op) {
  if (!config.default_level && !config.planned) {
    throw Error(ExitCode::configuration, "kernels.default: best needs a measured plan, and none was read");
  }
  return chosen_level(config, module, op).or_aten();
}

KernelSelection kernels_for(const KernelsConfig& config, std::string_view module) {
  KernelSelection selection;
  selection.each([&](const char* op, kernels::Level& level) { level = level_for(config, module, op); });
  return selection;
}

void for_each_line(const KernelsConfig& config, std::string_view module,
                   const std::function<void(const std::string& prefix, const OpLevels& levels)>& visit) {
  visit("kernels.", config.levels);
  const std::optional<int64_t> layer = layer_of(module);
  for (size_t i = 0; layer && i < config.layers.size(); ++i) {
    if (config.layers[i].only.contains(*layer)) {
      visit("kernels.layers." + std::to_string(i) + ".", config.layers[i].levels);
    }
  }
  for (size_t i = 0; i < config.modules.size(); ++i) {
    if (covers(config.modules[i].only, module)) {
      visit("kernels.modules." + std::to_string(i) + ".", config.modules[i].levels);
    }
  }
}

std::set<std::string> ops_set_to(const KernelsConfig& config, kernels::Level level) {
  std::set<std::string> ops;
  const auto add = [&](OpLevels levels) {
    levels.each([&](const char* op, const std::optional<kernels::Level>& chosen) {
      if (chosen == level) ops.insert(op);
    });
  };
  add(config.levels);
  for (const LayerKernels& line : config.layers) add(line.levels);
  for (const ModuleKernels& line : config.modules) add(line.levels);
  return ops;
}

bool compiles_in_first_calls(const KernelsConfig& config) {
  for (size_t i = 0; i < kernels::kLevelNames.size(); ++i) {
    const auto level = static_cast<kernels::Level>(i);
    const bool is_named = config.default_level == level || !ops_set_to(config, level).empty();
    if (is_named && traits(level).compiles_in_first_calls) return true;
  }
  return false;
}

bool has_line_for_head(const KernelsConfig& config) {
  return std::any_of(config.modules.begin(), config.modules.end(),
                     [](const ModuleKernels& line) { return line.levels.linear && covers(line.only, "head"); });
}

}  // namespace strata::modules
