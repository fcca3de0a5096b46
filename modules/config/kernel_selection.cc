// SPDX-License-Identifier: MIT
#include "modules/config/kernel_selection.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/errors.h"
#include "modules/config/module_name.h"

namespace strata::modules {
namespace {

using kernels::Level;

// In the order of the ops.
std::vector<std::optional<Level>> listed(OpLevels levels) {
  std::vector<std::optional<Level>> list;
  levels.each([&](const char*, std::optional<Level>& level) { list.push_back(level); });
  return list;
}

// Absent: nobody asks for the op.
OpLevels levels_for(const KernelsConfig& config, std::string_view module) {
  if (!config.default_level && !config.planned) {
    throw Error(ExitCode::configuration, "kernels.default: best needs a measured plan, and none was read");
  }
  OpLevels result;
  result.each([&](const char*, std::optional<Level>& level) { level = config.default_level; });
  // Not a level of head and loss but another way to compute them: only a line of its own asks for it.
  result.linear_cross_entropy.reset();
  for_each_line(config, module, [&](const std::string&, const OpLevels& levels) {
    const std::vector<std::optional<Level>> chosen = listed(levels);
    auto next = chosen.begin();
    result.each([&](const char*, std::optional<Level>& level) {
      if (*next) level = *next;
      ++next;
    });
  });
  return result;
}

}  // namespace

KernelSelection kernels_for(const KernelsConfig& config, std::string_view module) {
  const std::vector<std::optional<Level>> levels = listed(levels_for(config, module));
  KernelSelection selection;
  auto next = levels.begin();
  selection.each([&](const char*, Level& level) { level = (next++)->value_or(Level::aten); });
  return selection;
}

void for_each_line(const KernelsConfig& config, std::string_view module,
                   const std::function<void(const std::string& prefix, const OpLevels& levels)>& look) {
  look("kernels.", config.levels);
  const std::optional<int64_t> layer = layer_of(module);
  for (size_t i = 0; layer && i < config.layers.size(); ++i) {
    if (config.layers[i].only.contains(*layer)) {
      look("kernels.layers." + std::to_string(i) + ".", config.layers[i].levels);
    }
  }
  for (size_t i = 0; i < config.modules.size(); ++i) {
    if (means(config.modules[i].only, module)) {
      look("kernels.modules." + std::to_string(i) + ".", config.modules[i].levels);
    }
  }
}

bool has_line_for_head(const KernelsConfig& config) {
  return std::any_of(config.modules.begin(), config.modules.end(),
                     [](const ModuleKernels& line) { return line.levels.linear && means(line.only, "head"); });
}

}  // namespace strata::modules
